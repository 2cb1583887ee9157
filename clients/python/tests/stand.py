"""The stand of the shared cases: real servers behind proxies with faults (clients/testdata)."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import ssl
import subprocess
import unittest
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "clients" / "testdata" / "cases.json").read_text(encoding="utf-8"))


class Stand:
    """The control port, at WEIR_STAND or of a process of its own."""

    def __init__(self):
        self.url = os.environ.get("WEIR_STAND") or self._start()

    def _start(self):
        if shutil.which("go") is None:
            raise unittest.SkipTest("go; install Go, or set WEIR_STAND to the address of a stand")
        self._process = subprocess.Popen(
            ["go", "run", "./clients/stand"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._stop)
        return self._process.stdout.readline().strip()

    def _stop(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, method=method)
        try:
            with build_opener(ProxyHandler({})).open(request) as answer:
                return json.load(answer)
        except HTTPError as err:
            raise AssertionError(f"{method} {path}: {err.read().decode()}") from None

    def server(self, name="main", policies=None, flags=()):
        """Starts a server of cases.json, or one with policies of its own."""
        options = {"flags": list(flags), "policies": policies or ""}
        if policies is None and not flags:
            options = dict(CASES["servers"][name])
            options["policies"] = "\n".join(options["policies"])
        return Server(self, options, self._call("POST", "/servers", options))


class Server:
    """A weir serve behind proxies, until it is closed."""

    def __init__(self, stand, options, started):
        self._stand = stand
        self._path = f"/servers/{started['id']}"
        self._started = started
        self.token = options.get("token") or None
        self.encrypted = bool(options.get("tls"))
        self.unix = bool(options.get("unix"))

    def url(self, front="resp", direct=False):
        """Returns the URL of a listener."""
        address = (self._started["direct"] if direct else self._started)[front]
        if self.unix and front == "resp":
            return "unix:" + address
        scheme = {"resp": "redis", "http": "http"}[front]
        return f"{scheme}{'s' if self.encrypted else ''}://{address}"

    @property
    def tls(self):
        """The context that trusts its certificate; None without TLS."""
        return ssl.create_default_context(cadata=self._started["ca"]) if self.encrypted else None

    def fail(self, fault):
        """Sets the fault of the network."""
        self._stand._call("POST", self._path + "/fault", fault)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stand._call("DELETE", self._path)


_stand = None


def stand():
    """Returns the stand of this process."""
    global _stand
    if _stand is None:
        _stand = Stand()
    return _stand
