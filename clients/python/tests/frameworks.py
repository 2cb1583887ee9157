"""Real applications on real connections."""

from __future__ import annotations

import http.client
import importlib
import threading
import time
import unittest
import wsgiref.simple_server
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socketserver import ThreadingMixIn


def need(name, module=None):
    """Returns a module, or skips the test with the next step."""
    try:
        return importlib.import_module(module or name)
    except ImportError:
        raise unittest.SkipTest(
            f"{name}; run `pip install -r clients/python/tests/requirements.txt` with a network"
        ) from None


class WSGIServer(ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 256


class Silent(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def serve_wsgi(app):
    """Serves an application with threads, and gives the port."""
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, WSGIServer, Silent)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def closing(app, weir):
    """Returns the application with a client that is closed at the end of the server."""

    async def application(scope, receive, send):
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        for event in ("startup", "shutdown"):
            await receive()
            if event == "shutdown" and weir is not None:
                await weir.close()
            await send({"type": f"lifespan.{event}.complete"})

    return application


@contextmanager
def serve_asgi(app, weir, **options):
    """Serves an application with uvicorn, and gives the port."""
    uvicorn = need("uvicorn")
    config = uvicorn.Config(closing(app, weir), port=0, log_level="error", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


class Reply:
    def __init__(self, answer):
        self.status = answer.status
        self.body = answer.read().decode()
        self.headers = answer.headers


def get(port, path="/", **headers):
    """Sends a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers=names)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def count_allowed(port, times, path="/"):
    """Sends requests at the same time, and returns how many have status 200."""
    with ThreadPoolExecutor(min(times, 50)) as pool:
        replies = list(pool.map(lambda _: get(port, path), range(times)))
    statuses = {reply.status for reply in replies}
    assert statuses <= {200, 429}, statuses
    return sum(reply.status == 200 for reply in replies)
