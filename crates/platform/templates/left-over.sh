#!/bin/sh
# Prints what is left of a folder; nothing when it is gone.
set -eu
if [ -e "$1" ]; then
  echo "$1 is still there"
fi
