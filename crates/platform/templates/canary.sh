#!/bin/sh
# The canary tenant: uses what the phases before it made, as a tenant would.
set -eu
file="$2/canary"
case "$1" in
apply) echo sings >"$file" ;;
verify) test "$(cat "$file")" = sings ;;
teardown) rm -f "$file" ;;
*) echo "usage: canary.sh apply|verify|teardown FOLDER" >&2 && exit 2 ;;
esac
