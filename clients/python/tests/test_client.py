"""The clients beyond the shared cases: bad input, outages, queues, threads, tasks and forks."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import shutil
import socket
import subprocess
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import weirlimit
import weirlimit.asyncio
from weirlimit import InputError, ProtocolError, UnavailableError, Weir, WeirError

from .stand import stand

ANN = {"user": "ann"}
PATIENT = {"timeout": 20, "total_timeout": 40}  # on a busy machine


def refused():
    """Returns the URL of a port at which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return "redis://127.0.0.1:%d" % listener.getsockname()[1]


class Case(unittest.TestCase):
    def open(self, *arguments, **options):
        """Returns a client that is closed with the test."""
        weir = Weir(*arguments, **options)
        self.addCleanup(weir.close)
        return weir


class BadInput(Case):
    """Each mistake is one sentence with the next step, and nothing is sent."""

    def setUp(self):
        self.weir = self.open(refused())
        self.limiter = self.weir.policy("five")

    def rejects(self, sentence, call, *arguments, **named):
        with self.assertRaises(InputError) as raised:
            call(*arguments, **named)
        self.assertIn(sentence, str(raised.exception))

    def test_keys(self):
        take = self.limiter.take
        for key in (None, "ann", ["user"], 7):
            self.rejects("a key is a dict with a value for each dimension", take, key)
        for value in (None, 7, b"ann", ["ann"], True):
            self.rejects('the value of "user" is no text', take, {"user": value})
        self.rejects('the value of "user" is empty', take, {"user": ""})
        self.rejects('the value of "user" is no valid Unicode', take, {"user": "\ud800"})
        self.rejects("the name of a dimension must be text", take, {7: "ann"})
        self.rejects('"a=b" is no name of a dimension', take, {"a=b": "ann"})

    def test_units(self):
        for n in (-1, 2**51, 1.0, 1.5, "2", None, True, math.nan, math.inf):
            for call in (self.limiter.take, self.limiter.peek, self.limiter.reserve):
                self.rejects(" must be a whole number, ", call, ANN, n)
        self.rejects("n must be a whole number, 1 to", self.limiter.reserve, ANN, 0)
        self.rejects("not 2251799813685248", self.limiter.take, ANN, 2**51)

    def test_other_arguments(self):
        weir, limiter = self.weir, self.limiter
        for id in ("", "x" * 129, 7, b"x"):
            self.rejects("an id is text of 1 to 128 bytes", limiter.take, ANN, id=id)
        for wait in (-1, "1", None, math.nan, math.inf, True):
            self.rejects(
                "the longest wait must be a number of seconds, 0 to 34560000",
                limiter.wait,
                ANN,
                max_wait=wait,
            )
        self.rejects(
            "the life of a reservation must be a number of seconds, 0.001",
            limiter.reserve,
            ANN,
            ttl=0,
        )
        self.rejects("at_us must be a whole number", limiter.refund, ANN, "now")
        self.rejects("the name of a policy is text", weir.policy, "")
        self.rejects("the name of a policy is text", weir.policy, None)
        self.rejects("the name of limits is text", weir.limit, "1 per minute", name=None)
        for limits in (None, 7, {"a": 1}, "", " ", [7], ["1 per minute", ""]):
            self.rejects("a limit is text, such as", weir.limit, limits)
        self.rejects("a policy has at least one limit", weir.limit, [])
        self.rejects("limits holds names of limits", limiter.reset, ANN, limits=[7])
        self.rejects("a reservation is named by its id", weir.reservation, "")

    def test_settings(self):
        self.rejects("url is missing; pass it, or set WEIR_URL", Weir)
        for url in (
            7,
            "127.0.0.1:7073",
            "redis://",
            "ftp://x",
            "http://x/path",
            "redis://x:y",
            "redis://x?db=1",
            "unix:",
            "unix:run/weir.sock",
        ):
            self.rejects("the url ", Weir, url)
        for token in ("", "a\n", "ü", 7):
            self.rejects("token must be text", Weir, refused(), token=token)
        for seconds in (0, -1, "1", None):
            self.rejects("timeout must be a number of seconds", Weir, refused(), timeout=seconds)
            self.rejects("total_timeout must be a number", Weir, refused(), total_timeout=seconds)
        for n in (-1, 1.5, "1"):
            self.rejects("retries must be a whole number", Weir, refused(), retries=n)
            self.rejects("breaker must be a whole number", Weir, refused(), breaker=n)
        self.rejects("max_pending must be a whole number", Weir, refused(), max_pending=0)
        self.rejects(
            'when_down must be "deny" or "allow", not "share"', Weir, refused(), when_down="share"
        )
        self.rejects("on_down must be a function", Weir, refused(), on_down="log")
        with self.assertRaises(TypeError):
            Weir(whendown="deny")

    def test_secrets_stay_secret(self):
        with self.assertRaises(InputError) as raised:
            Weir("redis://:hunter2@weir:7073/path")
        self.assertNotIn("hunter2", str(raised.exception))

    def test_closed(self):
        self.weir.close()
        self.rejects("the client is closed; make calls before close", self.limiter.take, ANN)

    def test_forgotten_await(self):
        async def main():
            limiter = weirlimit.asyncio.Weir(refused()).policy("five")
            with self.assertRaisesRegex(TypeError, "await"):
                bool(limiter.reserve(ANN))

        asyncio.run(main())


class Outages(Case):
    def test_callbacks_are_called_once_each(self):
        calls = []
        with stand().server() as server:
            weir = self.open(server.url(), on_down=calls.append, on_up=lambda: calls.append("up"))
            five = weir.policy("five")
            self.assertTrue(five.take(ANN))
            server.fail({"kind": "refuse"})
            for _ in range(20):
                decision = five.take(ANN)
                self.assertFalse(decision.allowed)
                self.assertTrue(decision.degraded)
                self.assertIsInstance(decision.error, UnavailableError)
            server.fail({"kind": "none"})
            until(lambda: five.peek(ANN).error is None)
            weir.close()
        self.assertEqual([type(call).__name__ for call in calls], ["UnavailableError", "str"])
        self.assertIn("is not reached", str(calls[0]))

    def test_a_failing_callback_stops_no_decision(self):
        weir = self.open(refused(), when_down="allow", on_down=lambda err: 1 / 0)
        with self.assertLogs("weirlimit", "ERROR"):
            self.assertTrue(weir.policy("five").take(ANN))

    def test_an_outage_is_logged_once(self):
        weir = self.open(refused(), when_down="allow", retries=0)
        with self.assertLogs("weirlimit", "WARNING") as logs:
            for _ in range(20):
                self.assertTrue(weir.policy("five").take(ANN))
        self.assertEqual(len(logs.output), 1)
        self.assertIn("until it is back attempts are allowed", logs.output[0])

    def test_calls_without_a_decision_raise(self):
        weir = self.open(refused(), when_down="allow")
        five = weir.policy("five")
        opened = five.reserve(ANN, 3)
        self.assertEqual((opened.allowed, opened.id), (True, ""))
        self.assertEqual(opened.settle(2).actual, 2)  # nothing was charged
        for call in (
            lambda: five.refund(ANN, 1),
            lambda: five.reset(ANN),
            lambda: five.block(ANN, 1),
            lambda: weir.reservation("AQEF").done(),
            weir.ping,
        ):
            with self.assertRaises(UnavailableError):
                call()

    def test_a_denied_reservation_cannot_be_settled(self):
        with self.open(refused()).policy("five").reserve(ANN) as opened:
            self.assertFalse(opened)
            for call in (opened.done, opened.cancel, opened.extend, lambda: opened.add(1)):
                with self.assertRaisesRegex(InputError, "look at allowed first"):
                    call()

    def test_silence_lasts_no_longer_than_the_timeout(self):
        with stand().server() as server:
            for front in ("resp", "http"):
                server.fail({"kind": "silence"})
                for retries, seconds in ((0, 0.2), (9, 0.5)):
                    options = {"timeout": 0.2, "total_timeout": 0.5, "breaker": 0}
                    weir = self.open(server.url(front), retries=retries, **options)
                    took = shortest(lambda: weir.policy("five").take(ANN))
                    self.assertGreaterEqual(took, 0.2)
                    self.assertLess(took, seconds * 1.1)
                server.fail({"kind": "none"})

    def test_the_queue_is_bounded(self):
        with stand().server() as server:
            server.fail({"kind": "silence"})
            for front in ("resp", "http"):
                weir = self.open(server.url(front), max_pending=4, **PATIENT)
                five = weir.policy("five")
                with ThreadPoolExecutor(4) as pool:
                    calls = [pool.submit(five.take, ANN) for _ in range(4)]
                    until(lambda: weir._pool._pending == 4)
                    self.assertIn("that is max_pending", str(five.take(ANN).error))
                    weir.close()
                    self.assertFalse(any(call.result().allowed for call in calls))

    def test_the_breaker_spares_callers_the_timeout(self):
        with stand().server() as server:
            server.fail({"kind": "silence"})
            weir = self.open(server.url(), timeout=0.05, total_timeout=0.05, retries=0)
            five = weir.policy("five")
            errors = [str(five.take(ANN).error) for _ in range(60)]
        self.assertFalse(any("is away" in error for error in errors[:5]))
        self.assertGreater(sum("weir is away: " in error for error in errors), 30)


class OtherServers(Case):
    """Another server is a mistake, and no outage in which attempts may pass."""

    def rejected(self, url, sentence, **options):
        weir = self.open(url, when_down="allow", **{**PATIENT, **options})
        with self.assertRaises(WeirError) as raised:
            weir.policy("five").take(ANN)
        self.assertNotIsInstance(raised.exception, UnavailableError)
        self.assertIn(sentence, str(raised.exception))

    def test_the_other_listener(self):
        with stand().server() as server:
            http, resp = server.url("http").split("//")[1], server.url("resp").split("//")[1]
            self.rejected("redis://" + http, "use the address of --resp-listen")
            self.rejected("http://" + resp, "use the address of --listen")
            self.rejected("rediss://" + resp, "does not use TLS")
            self.rejected("https://" + http, "does not use TLS")

    def test_a_certificate_that_is_not_trusted(self):
        with stand().server("tls") as server:
            for front in ("resp", "http"):
                self.rejected(server.url(front), "is not trusted", token=server.token)

    def test_a_server_that_uses_tls(self):
        with stand().server("tls") as server:
            for front in ("resp", "http"):
                url = server.url(front).replace("rediss", "redis").replace("https", "http")
                weir = self.open(url, when_down="deny", token=server.token)
                try:
                    allowed = weir.policy("five").take(ANN).allowed
                except ProtocolError:
                    allowed = False
                self.assertFalse(allowed)

    @unittest.skipUnless(shutil.which("redis-server"), "redis-server; run `make tools`")
    def test_a_redis(self):
        port = refused().rpartition(":")[2]
        redis = subprocess.Popen(
            ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        try:
            until(lambda: can_connect(int(port)))
            self.rejected("redis://127.0.0.1:" + port, "is a Redis, no weir")
            self.rejected("redis://127.0.0.1:" + port, "AUTH", token="secret")
        finally:
            redis.kill()
            redis.wait()

    def test_a_token_that_the_server_does_not_want(self):
        with stand().server() as server:
            self.rejected(server.url(), "requires no token", token="secret")


class Concurrency(Case):
    def test_interrupted_threads_and_cancelled_tasks_leave_the_others_alone(self):
        async def main(url):
            async with weirlimit.asyncio.Weir(url, **PATIENT) as weir:
                million = weir.policy("million")
                tasks = [asyncio.ensure_future(million.take(ANN)) for _ in range(200)]
                await asyncio.sleep(0)
                for task in tasks[::2]:
                    task.cancel()
                decisions = await asyncio.gather(*tasks[1::2])
                self.assertEqual(sum(d.granted for d in decisions), 100)
                self.assertTrue(all(task.cancelled() for task in tasks[::2]))

        with stand().server() as server:
            for front in ("resp", "http"):
                asyncio.run(main(server.url(front)))

    def test_a_client_of_asyncio_serves_several_loops(self):
        with stand().server() as server:
            five = weirlimit.asyncio.Weir(server.url(), **PATIENT).policy("five")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # a loop leaves its connections
                left = [asyncio.run(five.take(ANN)).remaining for _ in range(3)]
                del five
                gc.collect()
            self.assertEqual(left, [4, 3, 2])

    def test_a_closed_connection_is_replaced(self):
        """The server closes idle connections; the next call notices it, without a retry."""
        with stand().server() as server:
            for front in ("resp", "http"):
                weir = self.open(server.url(front), retries=0, **PATIENT)
                five = weir.policy("five")
                five.take(ANN)
                connection = weir._pool._connections[0]
                server.fail({"kind": "refuse"})
                server.fail({"kind": "none"})
                until(connection._has_ended)
                connection._used -= 2  # as if two seconds had passed
                self.assertIsNone(five.take(ANN).error)

    @unittest.skipUnless(hasattr(os, "fork"), "fork; run the test on Linux or macOS")
    def test_a_fork_has_connections_of_its_own(self):
        """As under gunicorn --preload: parent and children call at the same time."""
        with stand().server() as server:
            for front in ("resp", "http"):
                key = {"user": front}
                weir = self.open(server.url(front), **PATIENT)
                million = weir.policy("million")
                million.take(key)
                children = []
                for _ in range(3):
                    child = os.fork()
                    if child == 0:
                        code = 1
                        try:
                            code = 0 if all(million.take(key) for _ in range(50)) else 2
                        finally:
                            os._exit(code)
                    children.append(child)
                self.assertTrue(all(million.take(key) for _ in range(50)))
                for child in children:
                    self.assertEqual(os.waitpid(child, 0)[1], 0)
                self.assertEqual(million.peek(key).remaining, 1_000_000 - 1 - 4 * 50)


class Reservations(Case):
    def test_the_end_of_with_settles_all(self):
        with stand().server() as server:
            weir = self.open(server.url(), **PATIENT)
            render = weir.policy("render")
            with render.reserve(ANN) as job:
                self.assertTrue(job)
                self.assertGreater(job.held_until.timestamp(), 0)
                self.assertFalse(render.take(ANN))
            self.assertTrue(render.peek(ANN))
            with self.assertRaises(ZeroDivisionError):
                with render.reserve(ANN):
                    1 / 0
            self.assertTrue(render.peek(ANN))

            async def main():
                async with weirlimit.asyncio.Weir(server.url(), **PATIENT) as weir:
                    render = weir.policy("render")
                    async with render.reserve(ANN) as job:
                        self.assertTrue(job)
                        self.assertFalse(await render.take(ANN))
                    job = await render.reserve(ANN)
                    self.assertTrue(job)
                    await job.done()

            asyncio.run(main())

    def test_a_settled_one_is_settled_once(self):
        with stand().server() as server:
            weir = self.open(server.url(), **PATIENT)
            model = weir.policy("model")
            with model.reserve({"tenant": "acme"}, 600, ttl=30) as answer:
                answer.settle(250)
            self.assertEqual(model.peek({"tenant": "acme"}).remaining, 750)

    def test_another_process_settles_by_id(self):
        with stand().server() as server:
            first, second = self.open(server.url(), **PATIENT), self.open(
                server.url("http"), **PATIENT
            )
            opened = first.policy("model").reserve({"tenant": "acme"}, 600)
            other = second.reservation(opened.id)
            self.assertIsNone(other.units)
            self.assertTrue(other.add(100))
            self.assertEqual(other.units, 700)
            self.assertEqual(other.settle(650).refunded, 50)


def until(condition):
    """Waits until a condition holds. A busy machine may take long."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the condition does not hold within a minute")


def can_connect(port):
    with closing(socket.socket()) as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def shortest(call):
    """Returns the least time of three calls, because a busy machine is late."""
    times = []
    for _ in range(3):
        begun = time.monotonic()
        call()
        times.append(time.monotonic() - begun)
    return min(times)
