"""The clients beyond the shared cases: bad input, outages, queues, threads, tasks and forks."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import weirlimit
import weirlimit.asyncio
from weirlimit import InputError, ProtocolError, UnavailableError, Weir, WeirError, threads

from .stand import stand

ANN = {"user": "ann"}
PATIENT = {"timeout": 20, "total_timeout": 40}  # on a busy machine


def refused():
    """Returns the URL of a port at which nothing listens. No other test gets it as a free one."""
    return "redis://127.0.0.1:1"


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
        for wait in (-1, -0.001, "1", None, math.nan, True):
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
            "redis://" + 64 * "a",
            "redis://a..b:7073",
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
        context = ssl.create_default_context()
        self.rejects("tls must be an ssl.SSLContext", Weir, "rediss://127.0.0.1", tls="ca.pem")
        for url in (refused(), "http://127.0.0.1", "unix:/run/weir.sock"):
            self.rejects("tls has no effect with " + url, Weir, url, tls=context)
        with self.assertRaises(TypeError):
            Weir(whendown="deny")

    def test_secrets_stay_secret(self):
        for url, sentence in (
            ("redis://:hunter2@weir:7073/path", 'the url "redis://…@weir:7073/path" is no address'),
            ("redis://:hunter2/x@weir:7073", "in a token write / as %2F"),
            ("http://:hunter2#x@weir", "in a token write / as %2F"),
            ("redis://hunter2@weir:7073", "the password is the token, as in redis://:TOKEN@weir"),
            (":hunter2@weir:7073", 'the url ":…@weir:7073" is no address'),
        ):
            with self.assertRaises(InputError) as raised:
                Weir(url)
            self.assertNotIn("hunter2", str(raised.exception))
            self.assertIn(sentence, str(raised.exception))

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
            options = {"on_down": calls.append, "on_up": lambda: calls.append("up"), **PATIENT}
            weir = self.open(server.url(), **options)
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
                for retries, seconds in ((0, 0.5), (9, 1.25)):
                    options = {"timeout": 0.5, "total_timeout": 1.25, "breaker": 0}
                    weir = self.open(server.url(front), retries=retries, **options)
                    tasks = weirlimit.asyncio.Weir(server.url(front), retries=retries, **options)
                    for call in (
                        lambda: weir.policy("five").take(ANN),
                        lambda: asyncio.run(tasks.policy("five").take(ANN)),
                    ):
                        took = shortest(call, seconds * 1.1)
                        self.assertGreaterEqual(took, 0.5)
                        self.assertLessEqual(took, seconds * 1.1)
                server.fail({"kind": "none"})

    def test_a_look_up_lasts_no_longer_than_the_timeout(self):
        real, seconds = socket.getaddrinfo, 3.0

        def slow(*arguments, **named):
            if not named.get("flags"):
                time.sleep(seconds)
            return real(*arguments, **named)

        for retries, most in ((0, 0.2), (9, 0.5)):
            options = {"timeout": 0.2, "total_timeout": 0.5, "breaker": 0}
            weir = self.open("redis://weir.example:1", retries=retries, **options)
            with mock.patch("socket.getaddrinfo", slow):
                took = shortest(lambda: weir.policy("five").take(ANN), most * 1.1)
            self.assertGreaterEqual(took, 0.2 * 0.9)  # a retry may not fit the rest of the time
            self.assertLessEqual(took, most * 1.1)

    def test_an_outage_is_no_reason_to_refund(self):
        five = self.open(refused(), when_down="allow").policy("five")
        self.assertEqual(five.refund(ANN, five.take(ANN)), 0)

    def test_another_server_does_not_end_an_outage(self):
        calls = []
        with stand().server() as server:
            options = {"on_down": calls.append, "on_up": lambda: calls.append("up"), "retries": 0}
            five = self.open(server.url(), **options).policy("five")
            server.fail({"kind": "refuse"})
            five.take(ANN)
            server.fail({"kind": "garbage", "times": 1000})
            until(lambda: raises(ProtocolError, lambda: five.take(ANN)))
            self.assertEqual(len(calls), 1)
            server.fail({"kind": "none"})
            until(lambda: five.take(ANN).error is None)
        self.assertEqual(calls[1:], ["up"])

    def test_the_queue_is_bounded(self):
        with stand().server() as server:
            server.fail({"kind": "silence"})
            for front in ("resp", "http"):
                weir = self.open(server.url(front), max_pending=4, **PATIENT)
                five = weir.policy("five")
                with ThreadPoolExecutor(4) as pool:
                    calls = [pool.submit(five.take, ANN) for _ in range(4)]
                    until(lambda: weir._pool._lanes.pending == 4)
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
            for front, scheme in (("resp", "rediss"), ("http", "https")):
                url = server.url(front).replace(scheme, scheme[:-1])
                self.rejected(url, f"uses TLS; write {scheme}://", token=server.token)

    @unittest.skipUnless(shutil.which("redis-server"), "redis-server; run `make tools`")
    def test_a_redis(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "redis")
            redis = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", path, "--save", ""],
                stdout=subprocess.DEVNULL,
            )
            try:
                until(lambda: listens(path))
                self.rejected("unix:" + path, "is a Redis, no weir")
                self.rejected("unix:" + path, "AUTH", token="secret")
            finally:
                redis.kill()
                redis.wait()


class Concurrency(Case):
    def test_an_interrupted_thread_takes_no_answer_of_others(self):
        """Its bytes may be lost after they were read. Then no later answer must go astray."""
        with stand().server() as server:
            five = self.open(server.url(), timeout=5, total_timeout=20).policy("five")
            five.take({"user": "carl"})
            with mock.patch.object(threads.Connection, "_take", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    five.take(ANN)
            self.assertEqual(five.take({"user": "bob"}, 2).remaining, 3)
            self.assertEqual(five.take({"user": "carl"}).remaining, 3)
            self.assertEqual(five.peek({"user": "bob"}).remaining, 3)

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

    def test_a_task_is_cancelled_as_its_wait_for_a_connection_ends(self):
        """The cancellation is not lost, although the wait fails at the same instant."""

        async def main(url):
            async with weirlimit.asyncio.Weir(url, **PATIENT) as weir:
                five = weir.policy("five")
                tasks = [asyncio.ensure_future(five.take(ANN)) for _ in range(9)]
                while not weir._pool._lanes.waiters:
                    await asyncio.sleep(0.001)
                lanes = weir._pool._lanes
                lanes.waiters[0].expire(UnavailableError("no connection was free in time"))
                tasks[8].cancel()
                for task in tasks[:8]:
                    task.cancel()
                await asyncio.wait(tasks)
                self.assertTrue(all(task.cancelled() for task in tasks))
                self.assertEqual(lanes.pending, 0)

        with stand().server() as server:
            server.fail({"kind": "silence"})
            asyncio.run(main(server.url("http")))

    def test_a_client_of_asyncio_serves_several_loops(self):
        with stand().server() as server:
            five = weirlimit.asyncio.Weir(server.url(), **PATIENT).policy("five")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # a loop leaves its connections
                left = [asyncio.run(five.take(ANN)).remaining for _ in range(3)]
                del five
                gc.collect()
            self.assertEqual(left, [4, 3, 2])

    def test_two_loops_at_one_time_are_named(self):
        async def in_another(five):
            await five.take(ANN)
            with ThreadPoolExecutor(1) as pool:
                with self.assertRaisesRegex(InputError, "make a client for each loop"):
                    pool.submit(asyncio.run, take(five)).result()
            return await five.take(ANN)

        async def take(five):
            return await five.take(ANN)

        async def main(url):
            async with weirlimit.asyncio.Weir(url, **PATIENT) as weir:
                return await in_another(weir.policy("five"))

        with stand().server() as server:
            self.assertEqual(asyncio.run(main(server.url())).remaining, 3)

    def test_a_closed_connection_is_replaced(self):
        """The server closes idle connections; the next call notices it, without a retry."""
        with stand().server() as server:
            for front in ("resp", "http"):
                weir = self.open(server.url(front), retries=0, **PATIENT)
                five = weir.policy("five")
                five.take(ANN)
                connection = weir._pool._lanes.open[0]
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


def raises(kind, call):
    """Reports whether a call raises an error of this kind."""
    try:
        call()
    except kind:
        return True
    return False


def listens(path):
    """Reports whether a server accepts connections on a socket file, which is there before."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) == 0


def until(condition):
    """Waits until a condition holds. A busy machine may take long."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the condition does not hold within a minute")


def shortest(call, enough):
    """Returns the time of the first call that takes no longer than enough, or the least of ten,
    because a busy machine is late."""
    times = []
    while len(times) < 10 and min(times, default=enough + 1) > enough:
        begun = time.monotonic()
        call()
        times.append(time.monotonic() - begun)
    return min(times)
