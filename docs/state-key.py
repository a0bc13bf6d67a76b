"""Gives OpenTofu the key of an encrypted state without `rebuild`: `docs/operating.md` says how.

Needs the Python package `cryptography` 44 or later, the target's `keys.json` as argument, and the passphrase in
REBUILD_PASSPHRASE.
"""
import base64
import json
import os
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

with open(sys.argv[1]) as file:
    keys = json.load(file)
cost = keys["stretching"]
master = Argon2id(
    salt=base64.b64decode(keys["salt"]),
    length=32,
    iterations=cost["passes"],
    lanes=cost["lanes"],
    memory_cost=cost["memory_kib"],
).derive(os.environ["REBUILD_PASSPHRASE"].encode())
key = base64.b64encode(HKDF(hashes.SHA256(), 32, None, b"state").derive(master)).decode()

print('{"magic":"OpenTofu-External-Key-Provider","version":1}', flush=True)
asked = json.loads(sys.stdin.readline() or "null")
answer = {"keys": {"encryption_key": key}, "meta": {"external_data": {"version": 1}}}
if asked is not None:
    answer["keys"]["decryption_key"] = key
print(json.dumps(answer))
