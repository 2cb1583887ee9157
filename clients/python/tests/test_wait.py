"""Waits: an instant of one's own, in the order of the calls, and units that are given back."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import weirlimit.asyncio
from weirlimit import tasks

from .stand import stand
from .test_client import ANN, PATIENT, Case, refused

POLICIES = """
version: 1
policies:
  fast:  {limit: 1 per 250ms per user, max-wait: 20s}
  slow:  {limit: 1 per minute per user, max-wait: 100s}
  model: {limit: 1000 tokens per minute per tenant}
  spaced: {limit: "2 per minute per user, 300ms apart"}
  jobs:  {limit: "1 at once per user, for at most 30s"}
"""


class Waits(Case):
    def setUp(self):
        server = stand().server(policies=POLICIES)
        server.__enter__()
        self.addCleanup(server.__exit__)
        self.server = server

    def test_callers_are_served_in_their_order(self):
        """No call returns before its instant, and no two have the same."""
        for front in ("resp", "http"):
            fast = self.open(self.server.url(front), **PATIENT).policy("fast")
            key = {"user": front}

            def call(_):
                decision = fast.wait(key, max_wait=20)
                starts_us = decision.at_us + round(decision.start_after * 1e6)
                return decision, starts_us, time.time()

            with ThreadPoolExecutor(4) as pool:
                calls = sorted(pool.map(call, range(4)), key=lambda made: made[1])
            for decision, starts_us, returned in calls:
                self.assertTrue(decision.allowed)
                self.assertGreaterEqual(returned, starts_us / 1e6)
            for (_, first, _), (_, second, _) in zip(calls, calls[1:]):
                self.assertGreaterEqual(second - first, 248_000)  # each is rounded up by 1 ms

    def test_one_that_is_too_long_is_denied(self):
        slow = self.open(self.server.url(), **PATIENT).policy("slow")
        self.assertTrue(slow.wait(ANN, max_wait=0))
        begun = time.monotonic()
        decision = slow.wait(ANN, max_wait=30)
        self.assertFalse(decision)
        self.assertGreater(decision.retry_after, 30)
        self.assertLess(time.monotonic() - begun, 30)

    def test_an_interrupt_gives_the_units_back(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        slow = self.open(self.server.url(), **PATIENT).policy("slow")
        self.assertTrue(slow.take(ANN))
        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 1)
        with self.assertRaises(KeyboardInterrupt):
            slow.wait(ANN, max_wait=100)
        self.assertEqual(slow.peek(ANN).remaining, 0)  # that of the first call alone

    def test_an_interrupt_before_the_answer_gives_the_units_back(self):
        ends = []

        def interrupt(*_):
            ends.append(threading.Timer(0.05, self.server.fail, [{"kind": "none"}]))
            ends[-1].start()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for front in ("resp", "http"):
            key = {"user": front}
            weir = self.open(self.server.url(front), **PATIENT)
            slow, jobs = weir.policy("slow"), weir.policy("jobs")
            self.assertTrue(slow.take(key))
            for call in (lambda: slow.wait(key, max_wait=100), lambda: jobs.reserve(key)):
                self.server.fail({"kind": "silence"})
                with self.assertRaises(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.3)
                    call()
                ends.pop().join()  # or it might end the silence of the next call
            self.assertEqual(slow.peek(key).remaining, 0)  # that of the first call alone
            self.assertEqual(jobs.peek(key).remaining, 1)

    def test_a_task_that_is_cancelled_before_the_answer_gives_the_units_back(self):
        async def main(front):
            async with weirlimit.asyncio.Weir(self.server.url(front), **PATIENT) as weir:
                slow, jobs = weir.policy("slow"), weir.policy("jobs")
                self.assertTrue(await slow.take(ANN))
                for call in (lambda: slow.wait(ANN, max_wait=100), lambda: reserve(jobs)):
                    self.server.fail({"kind": "silence"})
                    task = asyncio.ensure_future(call())
                    await asyncio.sleep(0.1)
                    task.cancel()
                    await asyncio.sleep(0)
                    self.server.fail({"kind": "none"})
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                self.assertEqual((await slow.peek(ANN)).remaining, 0)
                self.assertEqual((await jobs.peek(ANN)).remaining, 1)
                await slow.reset(ANN)

        async def reserve(jobs):
            return await jobs.reserve(ANN)

        for front in ("resp", "http"):
            asyncio.run(main(front))

    def test_a_wait_is_refunded_at_its_start(self):
        for front in ("resp", "http"):
            spaced = self.open(self.server.url(front), **PATIENT).policy("spaced")
            for attempt in range(10):
                key = {"user": f"{front} {attempt}"}
                spaced.take(key)
                decision = spaced.wait(key)
                if decision.start_us > decision.at_us:
                    break  # otherwise a busy machine was slower than the distance
            self.assertGreater(decision.start_us, decision.at_us)
            self.assertEqual(spaced.refund(key, decision), 1)
            self.assertEqual(spaced.peek(key).remaining, 1)

    def test_a_cancelled_task_gives_the_units_back(self):
        async def main():
            async with weirlimit.asyncio.Weir(self.server.url(), **PATIENT) as weir:
                slow = weir.policy("slow")
                self.assertTrue(await slow.take(ANN))
                waits = asyncio.ensure_future(slow.wait(ANN, max_wait=100))
                while (await slow.peek(ANN)).remaining == 0:  # until it is booked
                    pass
                self.assertEqual((await slow.peek(ANN)).remaining, -1)
                waits.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waits
                self.assertEqual((await slow.peek(ANN)).remaining, 0)

        asyncio.run(main())

    def test_a_task_that_is_cancelled_again_gives_the_units_back(self):
        """As those in a scope of anyio, which cancels each await until the task ends."""

        async def main():
            async with weirlimit.asyncio.Weir(self.server.url(), **PATIENT) as weir:
                slow = weir.policy("slow")
                self.assertTrue(await slow.take(ANN))
                for kind in ("none", "silence"):  # after and before the answer
                    self.server.fail({"kind": kind})
                    waits = asyncio.ensure_future(slow.wait(ANN, max_wait=100))
                    await asyncio.sleep(0.1)
                    while not waits.done():
                        waits.cancel()
                        await asyncio.sleep(0)
                    self.assertTrue(waits.cancelled())
                    self.server.fail({"kind": "none"})
                    while tasks.unfinished:
                        await asyncio.sleep(0.001)
                    self.assertEqual((await slow.peek(ANN)).remaining, 0)

        asyncio.run(main())

    def test_a_reservation_waits(self):
        model = self.open(self.server.url(), **PATIENT).policy("model")
        with model.reserve({"tenant": "acme"}, 600, max_wait=5) as answer:
            self.assertTrue(answer)
            self.assertEqual(answer.decision.start_after, 0)
            self.assertEqual(answer.settle(100).refunded, 500)

    def test_without_weir(self):
        for when_down in ("deny", "allow"):
            weir = self.open(refused(), when_down=when_down)
            decision = weir.policy("fast").wait(ANN, max_wait=1)
            self.assertEqual(decision.allowed, when_down == "allow")
            self.assertIsNotNone(decision.error)
