"""Makes and removes a bucket by the S3 interface: `bucket.py create|delete|exists ENDPOINT BUCKET`.

The keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as a provider would take them.
"""
import datetime
import hashlib
import hmac
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as tree

REGION = "us-east-1"


def request(method, endpoint, path, query=""):
    host = endpoint.split("://")[1]
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = "\n".join([method, path, query, lines, names, empty])
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    identity = os.environ["AWS_ACCESS_KEY_ID"]
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={identity}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    address = endpoint + path + ("?" + query if query else "")
    sent = urllib.request.Request(address, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(sent, timeout=30) as answer:
        return answer.read()


def keys(endpoint, bucket):
    found = tree.fromstring(request("GET", endpoint, f"/{bucket}", "list-type=2"))
    space = found.tag.split("}")[0] + "}"
    return [each.find(f"{space}Key").text for each in found.findall(f"{space}Contents")]


def main(act, endpoint, bucket):
    try:
        if act == "create":
            request("PUT", endpoint, f"/{bucket}")
        elif act == "exists":
            request("GET", endpoint, f"/{bucket}", "list-type=2")
            print(bucket)
        else:
            for _ in range(100):
                found = keys(endpoint, bucket)
                if not found:
                    break
                for key in found:
                    request("DELETE", endpoint, f"/{bucket}/{urllib.parse.quote(key)}")
            request("DELETE", endpoint, f"/{bucket}")
    except urllib.error.HTTPError as error:
        said = error.read().decode()
        if act != "create" and "NoSuchBucket" in said:
            return
        sys.exit(f"{error}: {said}")


main(*sys.argv[1:])
