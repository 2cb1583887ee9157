"""The middleware in Flask, Starlette and FastAPI, over real connections."""

from __future__ import annotations

import asyncio
import json
import threading

import weirlimit
import weirlimit.asyncio
from weirlimit import InputError, web
from weirlimit.asgi import LimitMiddleware as ASGIMiddleware
from weirlimit.wsgi import LimitMiddleware as WSGIMiddleware

from .frameworks import count_allowed, get, need, serve_asgi, serve_wsgi
from .stand import stand
from .test_client import PATIENT, Case, refused

POLICIES = """
version: 1
policies:
  search: {limit: 3 per hour per ip}
  demo:   {limit: 3 per hour per user}
  render: {limit: "2 at once per ip, for at most 30s"}
  never:  {limit: 0 per hour per ip}
"""


def flask_app():
    """Returns an application of Flask."""
    flask = need("Flask", "flask")
    app = flask.Flask("shop")

    @app.get("/")
    def hello():
        return "Hello."

    @app.get("/decision")
    def decision():
        return str(flask.request.environ["weirlimit.decision"].remaining)

    return app


class Web(Case):
    """A server with the policies above, and clients of it."""

    def setUp(self):
        server = stand().server(policies=POLICIES)
        server.__enter__()
        self.addCleanup(server.__exit__)
        self.server = server
        self.weir = self.open(server.url(), **PATIENT)
        self.tasks = weirlimit.asyncio.Weir(server.url(), **PATIENT)

    def wants_limit(self, port, path="/"):
        """Three requests pass, and the fourth is denied with its wait."""
        for left in (2, 1, 0):
            reply = get(port, path)
            self.assertEqual(
                (reply.status, reply.headers["RateLimit"]), (200, f'"search";r={left}')
            )
        reply = get(port, path)
        self.assertEqual(reply.status, 429)
        wait = int(reply.headers["Retry-After"])
        self.assertIn(wait, range(3500, 3601))
        self.assertEqual(reply.headers["RateLimit"], f'"search";r=0;t={wait}')
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        self.assertEqual(reply.headers["Cache-Control"], "no-store")
        problem = json.loads(reply.body)
        self.assertEqual((problem["status"], problem["violated-policies"]), (429, ["search"]))
        self.assertEqual(wait, -(-problem["retry_after_ms"] // 1000))


class WSGI(Web):
    def test_flask(self):
        app = flask_app()
        app.wsgi_app = WSGIMiddleware(app.wsgi_app, self.weir.policy("search"))
        with serve_wsgi(app) as port:
            self.wants_limit(port)

    def test_many_requests_at_once(self):
        app = flask_app()
        app.wsgi_app = WSGIMiddleware(app.wsgi_app, self.weir.policy("search"))
        with serve_wsgi(app) as port:
            self.assertEqual(count_allowed(port, 50), 3)

    def test_the_application_reads_the_decision(self):
        app = flask_app()
        app.wsgi_app = WSGIMiddleware(app.wsgi_app, self.weir.policy("search"))
        with serve_wsgi(app) as port:
            self.assertEqual(get(port, "/decision").body, "2")

    def test_keys(self):
        """Users count by themselves; without a user the status is 400; None counts nothing."""

        def key(environ):
            path = environ["PATH_INFO"]
            return None if path == "/" else {"user": environ.get("HTTP_X_USER", "")}

        app = flask_app()
        app.wsgi_app = WSGIMiddleware(app.wsgi_app, self.weir.policy("demo"), key)
        with serve_wsgi(app) as port:
            self.assertEqual([get(port).status for _ in range(5)], [200] * 5)
            for user in ("ann", "bob"):
                statuses = [get(port, "/decision", X_User=user).status for _ in range(4)]
                self.assertEqual(statuses, [200, 200, 200, 429])
            reply = get(port, "/decision")
            self.assertEqual(reply.status, 400)
            self.assertIn('the value of "user" is empty', json.loads(reply.body)["detail"])

    def test_a_hold_ends_with_the_response(self):
        inside, leave = threading.Semaphore(0), threading.Event()

        def slow(environ, start_response):
            start_response("200 OK", [])
            inside.release()
            leave.wait()
            yield b"Hello."

        app = WSGIMiddleware(slow, self.weir.policy("render"), hold=True)
        with serve_wsgi(app) as port:
            threads = [threading.Thread(target=get, args=(port,)) for _ in range(2)]
            for thread in threads:
                thread.start()
                inside.acquire()
            self.assertEqual(get(port).status, 429)
            leave.set()
            for thread in threads:
                thread.join()
            self.assertEqual(get(port).status, 200)
        self.assertEqual(self.weir.policy("render").peek({"ip": "127.0.0.1"}).remaining, 2)

    def test_a_failing_application_ends_its_hold(self):
        def broken(environ, start_response):
            raise ZeroDivisionError

        app = WSGIMiddleware(broken, self.weir.policy("render"), hold=True)
        for _ in range(3):
            with self.assertRaises(ZeroDivisionError):
                app({"REMOTE_ADDR": "192.0.2.7"}, lambda *_: None)

    def test_without_weir(self):
        for when_down, status in (("deny", 503), ("allow", 200)):
            limiter = self.open(refused(), when_down=when_down).policy("search")
            app = flask_app()
            app.wsgi_app = WSGIMiddleware(app.wsgi_app, limiter)
            with serve_wsgi(app) as port:
                reply = get(port)
            self.assertEqual(reply.status, status)
            self.assertNotIn("RateLimit", reply.headers)

    def test_mistakes_of_the_program(self):
        with self.assertRaisesRegex(InputError, "not of weirlimit.asyncio"):
            WSGIMiddleware(flask_app(), self.tasks.policy("search"))
        with self.assertRaisesRegex(InputError, "proxies must be a whole number"):
            WSGIMiddleware(flask_app(), self.weir.policy("search"), proxies=True)
        app = WSGIMiddleware(None, self.weir.policy("serch"))
        with self.assertRaisesRegex(InputError, 'no policy "serch"'):
            app({"REMOTE_ADDR": "192.0.2.7"}, None)

    def test_more_than_the_limit_ever_allows(self):
        app = WSGIMiddleware(flask_app(), self.weir.policy("never"))
        with serve_wsgi(app) as port:
            reply = get(port)
        self.assertEqual((reply.status, reply.headers["Retry-After"]), (429, None))


class ASGI(Web):
    def test_starlette(self):
        need("Starlette", "starlette")
        from starlette.applications import Starlette
        from starlette.responses import PlainTextResponse
        from starlette.routing import Route

        app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("Hello."))])
        app.add_middleware(ASGIMiddleware, limiter=self.tasks.policy("search"))
        with serve_asgi(app, self.tasks) as port:
            self.wants_limit(port)

    def test_fastapi(self):
        app = need("FastAPI", "fastapi").FastAPI()
        app.get("/")(lambda: "Hello.")
        app.add_middleware(ASGIMiddleware, limiter=self.tasks.policy("search"))
        with serve_asgi(app, self.tasks) as port:
            self.wants_limit(port)

    def test_many_requests_at_once(self):
        app = need("FastAPI", "fastapi").FastAPI()
        app.get("/")(lambda: "Hello.")
        app.add_middleware(ASGIMiddleware, limiter=self.tasks.policy("search"))
        with serve_asgi(app, self.tasks) as port:
            self.assertEqual(count_allowed(port, 50), 3)

    def test_keys_of_a_coroutine_and_holds(self):
        app = need("FastAPI", "fastapi").FastAPI()
        app.get("/")(lambda: "Hello.")

        async def key(scope):
            return {"ip": dict(scope["headers"]).get(b"x-key", b"").decode()}

        app.add_middleware(ASGIMiddleware, limiter=self.tasks.policy("render"), key=key, hold=True)
        with serve_asgi(app, self.tasks) as port:
            self.assertEqual([get(port, X_Key="a").status for _ in range(5)], [200] * 5)
            self.assertEqual(get(port).status, 400)

    def test_a_request_that_is_cancelled_again_ends_its_hold(self):
        """As those in a scope of anyio, which cancels each await until the task ends."""

        async def forever(scope, receive, send):
            await asyncio.Event().wait()

        async def main():
            async with weirlimit.asyncio.Weir(self.server.url(), **PATIENT) as weir:
                render, key = weir.policy("render"), {"ip": "192.0.2.7"}
                app = ASGIMiddleware(forever, render, hold=True)
                scope = {"type": "http", "headers": [], "client": ("192.0.2.7", 1)}
                request = asyncio.ensure_future(app(scope, None, None))
                while (await render.peek(key)).remaining == 2:  # until it is held
                    pass
                while not request.done():
                    request.cancel()
                    await asyncio.sleep(0)
                while (await render.peek(key)).remaining != 2:  # until it is released
                    pass

        asyncio.run(asyncio.wait_for(main(), 20))

    def test_a_websocket_is_closed_before_it_is_accepted(self):
        async def main():
            async with weirlimit.asyncio.Weir(self.server.url(), **PATIENT) as weir:
                app = ASGIMiddleware(self.fail, weir.policy("never"))
                scope = {"type": "websocket", "headers": [], "client": ("192.0.2.7", 1)}
                sent = []

                async def receive():
                    return {"type": "websocket.connect"}

                async def send(message):
                    sent.append(message)

                await app(scope, receive, send)
            return sent

        [message] = asyncio.run(main())
        self.assertEqual((message["type"], message["code"]), ("websocket.close", 1008))

    def test_a_blocking_limiter_is_a_mistake(self):
        with self.assertRaisesRegex(InputError, "needs a limiter of weirlimit.asyncio"):
            ASGIMiddleware(None, self.weir.policy("search"))


class Addresses(Case):
    def test_units(self):
        for text, unit in (
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:4711", "192.0.2.7"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("[2001:db8::1]:4711", "2001:db8::/64"),
            ("fe80::1%eth0", "fe80::/64"),
        ):
            self.assertEqual(web.unit_of(text), unit)
        for text in ("", "unknown", "1.2.3", "localhost"):
            with self.assertRaisesRegex(InputError, "pass a key function"):
                web.unit_of(text)

    def test_proxies(self):
        """The address that the outermost own proxy has seen counts; what clients send does not."""
        find = web.Addresses(2).find
        forwarded = ["203.0.113.9, 198.51.100.1", "10.0.0.1"]
        self.assertEqual(find("10.0.0.2", forwarded, False), "198.51.100.1")
        with self.assertLogs("weirlimit", "WARNING") as logs:
            self.assertEqual(find("10.0.0.2", ["203.0.113.9"], False), "10.0.0.2")
            self.assertEqual(find("10.0.0.2", ["203.0.113.9"], False), "10.0.0.2")
        self.assertEqual(len(logs.output), 1)
        self.assertIn(
            "a request has 1 addresses in X-Forwarded-For, but proxies is 2", logs.output[0]
        )

    def test_a_forgotten_proxy_is_named_once(self):
        for build, serve, make in (
            (WSGIMiddleware, serve_wsgi, self.open),
            (ASGIMiddleware, serve_asgi, weirlimit.asyncio.Weir),
        ):
            weir = make(refused(), when_down="allow")
            app = build(flask_app() if build is WSGIMiddleware else hello, weir.policy("search"))
            served = serve(app) if serve is serve_wsgi else serve(app, weir, proxy_headers=False)
            with self.assertLogs("weirlimit", "WARNING") as logs, served as port:
                for _ in range(2):
                    get(port, X_Forwarded_For="203.0.113.9")
            named = [line for line in logs.output if "but proxies is 0" in line]
            self.assertEqual(len(named), 1, logs.output)

    def test_an_address_of_another_middleware_is_taken(self):
        need("Flask", "werkzeug")
        from werkzeug.middleware.proxy_fix import ProxyFix

        seen = []

        def app(environ, start_response):
            seen.append(limited._address(environ))
            start_response("200 OK", [])
            return []

        limited = WSGIMiddleware(app, self.open(refused()).policy("search"))
        with serve_wsgi(ProxyFix(app, x_for=1)) as port:
            get(port, X_Forwarded_For="203.0.113.9")
        self.assertEqual(limited._addresses._warned, set())
        self.assertEqual(seen, [{"ip": "203.0.113.9"}])


async def hello(scope, receive, send):
    """The smallest application of ASGI."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"Hello."})
