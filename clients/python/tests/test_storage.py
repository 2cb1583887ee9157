"""The storage of limits, with the package itself, Flask-Limiter and SlowAPI."""

from __future__ import annotations

import asyncio
import importlib
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from weirlimit import InputError, UnavailableError

from .frameworks import count_allowed, get, need, serve_asgi, serve_wsgi
from .stand import stand
from .test_client import PATIENT, refused

try:
    MODERN = hasattr(importlib.import_module("limits.errors"), "StorageError")  # limits 3 and later
except ImportError:
    MODERN = False


class Storage(unittest.TestCase):
    """A server, and storages on it."""

    def setUp(self):
        need("limits")
        importlib.import_module("weirlimit.storage")  # makes weir:// known

        server = stand().server(flags=["--inline-policies"])
        server.__enter__()
        self.addCleanup(server.__exit__)
        self.server = server
        self.kept = []  # limiters of limits 2 refer weakly to their storages

    def uri(self, front="resp"):
        """Returns the URI of a storage."""
        scheme = {"resp": "weir", "http": "weir+http"}[front]
        return self.server.url(front).replace("redis" if front == "resp" else "http", scheme, 1)

    def storage(self, uri, **options):
        """Returns a storage that is closed with the test."""
        from limits.storage import storage_from_string

        made = storage_from_string(uri, **{**PATIENT, **options})
        self.kept.append(made)
        if not uri.startswith("async+"):
            self.addCleanup(made._weir.close)
        return made


class Limits(Storage):
    def test_the_moving_window(self):
        import limits

        for front in ("resp", "http"):
            storage = self.storage(self.uri(front))
            limiter = limits.strategies.MovingWindowRateLimiter(storage)
            item = limits.parse("10 per minute")
            user = ("ann", front)
            self.assertTrue(storage.check())
            self.assertEqual(limiter.get_window_stats(item, *user)[1], 10)
            before = time.time()
            self.assertTrue(limiter.hit(item, *user))
            after = time.time()
            self.assertTrue(limiter.hit(item, *user, cost=3))
            reset_time, remaining = limiter.get_window_stats(item, *user)
            self.assertEqual(remaining, 6)
            self.assertTrue(before + 60 <= reset_time + 0.001, (before, reset_time))
            self.assertTrue(reset_time - 60 <= after + 1, (after, reset_time))
            if MODERN:
                self.assertTrue(limiter.test(item, *user, cost=6))
                self.assertFalse(limiter.test(item, *user, cost=7))
            self.assertFalse(limiter.hit(item, *user, cost=7))
            self.assertTrue(limiter.hit(item, *user, cost=6))
            self.assertFalse(limiter.hit(item, *user))
            reset_time, remaining = limiter.get_window_stats(item, *user)
            self.assertEqual(remaining, 0)
            self.assertTrue(reset_time - 60 <= after + 1, (after, reset_time))
            limiter.clear(item, *user)
            self.assertEqual(limiter.get_window_stats(item, *user)[1], 10)
            self.assertFalse(limiter.hit(item, *user, cost=11))

    def test_each_limit_has_its_histories(self):
        import limits

        limiter = limits.strategies.MovingWindowRateLimiter(self.storage(self.uri()))
        texts = ["1/second", "1/2 minutes", "1/hour", "1/day", "1/month", "1/year", "2/minute"]
        for text in texts:
            item = limits.parse(text)
            self.assertTrue(limiter.hit(item, "ann"), text)
            limiter.clear(item, "ann")
            self.assertTrue(limiter.hit(item, "ann"), text)

    def test_keys_of_any_text_and_length(self):
        import limits

        limiter = limits.strategies.MovingWindowRateLimiter(self.storage(self.uri()))
        item = limits.parse("1 per hour")
        for key in ("张三", "a=b c\r\n", "x" * 5000, "x" * 5001, "\ud800", "\udfff"):
            self.assertTrue(limiter.hit(item, key), ascii(key[:9]))
            self.assertFalse(limiter.hit(item, key), ascii(key[:9]))

    def test_the_storage_of_asyncio(self):
        import limits

        async def main():
            storage = self.storage("async+" + self.uri())
            limiter = limits.aio.strategies.MovingWindowRateLimiter(storage)
            item = limits.parse("10 per minute")
            self.assertTrue(await storage.check())
            hits = await asyncio.gather(*(limiter.hit(item, "ann") for _ in range(50)))
            self.assertEqual(sum(hits), 10)
            self.assertFalse(await limiter.test(item, "ann"))
            self.assertEqual((await limiter.get_window_stats(item, "ann"))[1], 0)
            await limiter.clear(item, "ann")
            self.assertTrue(await limiter.hit(item, "ann"))
            with self.assertRaisesRegex(limits.errors.ConfigurationError, "moving-window"):
                await limits.aio.strategies.FixedWindowRateLimiter(storage).hit(item, "ann")
            await storage._weir.close()

        import limits.aio.strategies

        asyncio.run(main())

    def test_mistakes(self):
        import limits
        from limits.errors import ConfigurationError

        storage = self.storage(self.uri())
        item = limits.parse("1 per minute")
        fixed = limits.strategies.FixedWindowRateLimiter(storage)
        for call in (fixed.hit, fixed.test, fixed.get_window_stats):
            with self.assertRaisesRegex(ConfigurationError, 'set strategy="moving-window"'):
                call(item, "ann")
        with self.assertRaises(NotImplementedError):
            storage.reset()
        with self.assertRaisesRegex(InputError, "does not end with amount/multiples/unit"):
            storage.clear("key")
        moving = limits.strategies.MovingWindowRateLimiter(storage)
        with self.assertRaisesRegex(InputError, "longer than 400 days"):
            moving.hit(limits.parse("1 per 2 year"), "ann")
        with self.assertRaisesRegex(InputError, "no address"):
            self.storage("weir://")
        away = self.storage(refused().replace("redis", "weir"))
        self.assertFalse(away.check())
        with self.assertRaises(UnavailableError):
            limits.strategies.MovingWindowRateLimiter(away).hit(item, "ann")
        if MODERN:
            wrapped = self.storage(refused().replace("redis", "weir"), wrap_exceptions=True)
            with self.assertRaises(limits.errors.StorageError):
                limits.strategies.MovingWindowRateLimiter(wrapped).hit(item, "ann")
        open_ = self.storage(refused().replace("redis", "weir"), when_down="allow")
        self.assertTrue(limits.strategies.MovingWindowRateLimiter(open_).hit(item, "ann"))

    def test_a_server_without_inline_policies(self):
        import limits

        with stand().server() as server:
            storage = self.storage(server.url().replace("redis", "weir", 1))
            limiter = limits.strategies.MovingWindowRateLimiter(storage)
            with self.assertRaisesRegex(InputError, "start weir serve with --inline-policies"):
                limiter.hit(limits.parse("1 per minute"), "ann")

    def test_two_hundred_requests_at_an_edge(self):
        """A window that begins with its first hit lets almost twice N pass around its end."""
        import limits

        if not MODERN:
            self.skipTest("limits 3; before, the end of a window is known in whole seconds only")
        n = 50
        for window in range(2, 21, 2):  # seconds; a busy machine needs a longer one
            item = limits.RateLimitItemPerSecond(n, window)
            fixed = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
            moving = limits.strategies.MovingWindowRateLimiter(self.storage(self.uri()))
            user = str(time.monotonic_ns())

            # The first hit of moving leaves its window before edge, also if the machine is slow now.
            counts = {limiter: int(limiter.hit(item, user)) for limiter in (moving, fixed)}
            edge = fixed.get_window_stats(item, user)[0]
            await_instant(edge - window / 4)
            began = time.monotonic()
            self.hit(counts, item, user)
            in_time = time.time() < edge
            await_instant(edge + 0.01)
            self.hit(counts, item, user)
            if in_time and time.monotonic() - began < window:
                break
        else:
            self.fail("200 requests took longer than a window, ten times")
        both = (counts[fixed] - 1, counts[moving] - 1)  # without the first one, a window ago
        print(
            f"200 requests at an edge, {n} allowed: {both[0]} pass limits' default, {both[1]} weir"
        )
        self.assertEqual(both, (2 * n - 1, n))

    def hit(self, counts, item, user):
        """Makes 100 attempts at once with each limiter."""
        with ThreadPoolExecutor(50) as pool:
            for limiter in counts:
                hits = pool.map(lambda _: limiter.hit(item, user), range(100))
                counts[limiter] += sum(hits)


def await_instant(at):
    """Waits until an instant of the clock of the machine."""
    while time.time() < at:
        time.sleep(min(0.01, max(at - time.time(), 0)))


class Frameworks(Storage):
    """Each application changes one argument, and its limit is exact across processes."""

    def test_flask_limiter(self):
        flask = need("Flask", "flask")
        limiters = need("Flask-Limiter", "flask_limiter")
        from flask_limiter.util import get_remote_address

        apps = []
        for _ in range(2):  # two processes of one application
            app = flask.Flask("shop")
            limiter = limiters.Limiter(
                get_remote_address,
                app=app,
                storage_uri=self.uri(),
                strategy="moving-window",
                headers_enabled=True,
                storage_options=PATIENT,
            )
            self.addCleanup(limiter.storage._weir.close)
            app.get("/")(limiter.limit("3 per hour")(lambda: "Hello."))
            apps.append(app)
        with serve_wsgi(apps[0]) as one, serve_wsgi(apps[1]) as two:
            self.assertEqual(get(one).headers["X-RateLimit-Remaining"], "2")
            self.assertEqual(count_allowed(two, 20) + count_allowed(one, 20), 2)
            reply = get(one)
        self.assertEqual((reply.status, reply.headers["X-RateLimit-Remaining"]), (429, "0"))
        self.assertIn(int(reply.headers["Retry-After"]), range(3500, 3602))

    def test_flask_limiter_falls_back_to_memory(self):
        flask = need("Flask", "flask")
        limiters = need("Flask-Limiter", "flask_limiter")
        app = flask.Flask("shop")
        limiter = limiters.Limiter(
            lambda: "ann",
            app=app,
            storage_uri=refused().replace("redis", "weir"),
            strategy="moving-window",
            in_memory_fallback_enabled=True,
        )
        app.get("/")(limiter.limit("3 per hour")(lambda: "Hello."))
        with serve_wsgi(app) as port:
            self.assertEqual([get(port).status for _ in range(4)], [200, 200, 200, 429])

    def test_slowapi(self):
        fastapi = need("FastAPI", "fastapi")
        slowapi = need("SlowAPI", "slowapi")
        from slowapi.errors import RateLimitExceeded
        from slowapi.util import get_remote_address

        app = fastapi.FastAPI()
        limiter = slowapi.Limiter(
            get_remote_address,
            storage_uri=self.uri(),
            strategy="moving-window",
            storage_options=PATIENT,
        )
        self.addCleanup(limiter._storage._weir.close)
        app.state.limiter = limiter
        app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)

        def hello(request):
            return "Hello."

        hello.__annotations__ = {"request": fastapi.Request}  # no text, which FastAPI cannot read
        app.get("/")(limiter.limit("3/hour")(hello))
        with serve_asgi(app, None) as port:
            self.assertEqual(count_allowed(port, 20), 3)


if __name__ == "__main__":
    unittest.main()
