"""Signs schemathesis' requests to the web door; see scripts/web-api.sh. With the argument `wait` it waits until the
account's session is up: before that the door answers 503, which is no defect."""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

KEY, SECRET = "api", b"0123456789abcdef"


def headers(method, target, body):
    at, nonce = str(int(time.time() * 1000)), os.urandom(8).hex()
    text = (at + nonce + method + target).encode() + body
    return {
        "FB-KEY": KEY,
        "FB-TIMESTAMP": at,
        "FB-NONCE": nonce,
        "FB-SIGN": hmac.new(SECRET, text, hashlib.sha256).hexdigest(),
    }


def wait():
    base = os.environ["FAIRBELL_WEB"]
    for _ in range(300):
        request = urllib.request.Request(base + "/v1/orders", None, headers("GET", "/v1/orders", b""))
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                json.load(answer)
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit("web-api: the account's session does not come up")


if sys.argv[1:] == ["wait"]:
    wait()
else:
    import requests
    import schemathesis

    class Signed(requests.auth.AuthBase):
        """Signs what is sent at last: method, path with query, and body, as bytes."""

        def __call__(self, request):
            at = urlsplit(request.url)
            target = at.path + ("?" + at.query if at.query else "")
            body = request.body or b""
            if isinstance(body, str):
                body = body.encode()
            request.headers.update(headers(request.method, target, body))
            return request

    schemathesis.auth.set_from_requests(Signed())
