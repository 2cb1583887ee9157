"""A Flask application that limits the requests of each client address, and of each user. A gate
of `weir serve --gate-id-header X-Request-Id` decides: docs/http-api.md, ANY /gate/{policy}."""
import re
from contextlib import closing
from functools import wraps
from http.client import HTTPConnection, IncompleteRead
from os import environ
from urllib.parse import urlencode
from uuid import uuid4

from flask import Flask, abort, after_this_request, request


def setting(name, initial, form, sentence):
    """Reads an environment variable whose value must match form."""
    value = environ.get(name, initial)
    if not re.fullmatch(form, value, re.ASCII):
        raise ValueError(f"{name} must be {sentence}, not {value!r}")
    return value


WEIR = setting("WEIR", "127.0.0.1:7070", r"([\w.-]+|\[[\da-fA-F:]+\]):\d+",
               "host:port, such as 127.0.0.1:7070, without http:// and path")
TIMEOUT = int(setting("WEIR_TIMEOUT_MS", "250", r"[1-9]\d{0,4}",
                      "milliseconds, 1 to 99999")) / 1000  # seconds for each read
DOWN = setting("WEIR_DOWN", "deny", "deny|allow",
               "deny or allow")  # the decision if both are missing

app = Flask(__name__)
# Behind a proxy: app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1) makes remote_addr the address
# that the proxy adds to X-Forwarded-For. Without a proxy, clients could forge that field.


def ask(policy, key):
    for name, value in key.items():  # requests without a login share no history
        if not isinstance(value, str) or not value:
            raise TypeError(f"{name} must be text")
    # The query encodes the key as UTF-8. A header field could not hold 张三, and would change Jürgen.
    gate = f"/gate/{policy}?{urlencode(key)}"
    # A retry has the same id, so it is not charged again. Clients must not choose the id.
    headers = {"Client-Address": request.remote_addr, "X-Request-Id": str(uuid4())}
    if forwarded := request.headers.get("X-Forwarded-For"):  # with it weir finds a missing ProxyFix
        headers["X-Forwarded-For"] = forwarded
    for _ in range(2):
        try:
            with closing(HTTPConnection(WEIR, timeout=TIMEOUT)) as weir:
                weir.request("GET", gate, headers=headers)
                answer = weir.getresponse()
                return answer.status, answer.headers, answer.read()
        except (OSError, IncompleteRead) as err:
            cause = repr(err)
    return 0, {}, cause


def limit(policy, key):
    status, fields, body = ask(policy, key)

    @after_this_request
    def describe(response):
        names = "RateLimit-Policy", "RateLimit", "Retry-After"
        response.headers.update((name, fields[name]) for name in names if name in fields)
        return response

    if status == 429:
        return body, 429, {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    if status != 204:
        app.logger.error("no decision from weir at %s: %s %s", WEIR, status, body)
        # A wrong policy or secret must not open the door. 400: the name is too long, for example.
        if status != 0 or DOWN != "allow":
            abort(400 if status == 400 else 503)


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
