"""A Flask application that limits the requests of each client address, and of each user. A gate
of `weir serve --gate-id-header X-Request-Id` decides: docs/http-api.md, ANY /gate/{policy}."""
from contextlib import closing, suppress
from functools import wraps
from http.client import HTTPConnection, HTTPException
from os import environ
from urllib.parse import urlencode
from uuid import uuid4

from flask import Flask, after_this_request, request

WEIR = environ.get("WEIR", "127.0.0.1:7070")
TIMEOUT = int(environ.get("WEIR_TIMEOUT_MS", 250)) / 1000  # seconds for each read
DOWN = environ.get("WEIR_DOWN", "deny")  # or "allow": the decision if both are missing

app = Flask(__name__)
# Behind a proxy: app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1) makes remote_addr the address
# that the proxy adds to X-Forwarded-For. Without a proxy, clients could forge that field.


def ask(policy, key, address):
    # The query encodes the key as UTF-8. A header field could not hold 张三, and would change Jürgen.
    gate = f"/gate/{policy}?{urlencode(key)}"
    # A retry has the same id, so it is not charged again. Clients must not choose the id.
    headers = {"Client-Address": address, "X-Request-Id": str(uuid4())}
    for _ in range(2):
        with suppress(OSError, HTTPException), closing(HTTPConnection(WEIR, timeout=TIMEOUT)) as weir:
            weir.request("GET", gate, headers=headers)
            answer = weir.getresponse()
            return answer.status, answer.headers, answer.read()
    return 0, {}, "no answer"


def limit(policy, key):
    status, fields, body = ask(policy, key, request.remote_addr)

    @after_this_request
    def describe(response):
        names = "RateLimit-Policy", "RateLimit", "Retry-After"
        response.headers.update((name, fields[name]) for name in names if name in fields)
        return response

    if status == 429:
        return body, 429, {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    if status != 204:
        app.logger.error("no decision from weir: %s %s", status, body)
        if status != 0 or DOWN != "allow":  # a wrong policy or secret must not open the door
            return "Try again later.\n", 503


def limited(policy, key_of):
    return lambda view: wraps(view)(lambda **args: limit(policy, key_of(**args)) or view(**args))


@app.get("/")
@limited("search", lambda: {"address.ip": "Client-Address"})
def hello():
    return "Hello.\n"


@app.get("/users/<name>")
@limited("demo", lambda name: {"user": name})
def user(name):
    return "Hello.\n"
