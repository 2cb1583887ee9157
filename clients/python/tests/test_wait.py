"""Waits: an instant of one's own, in the order of the calls, and units that are given back."""

from __future__ import annotations

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import weirlimit.asyncio

from .stand import stand
from .test_client import ANN, PATIENT, Case, refused

POLICIES = """
version: 1
policies:
  fast:  {limit: 1 per 250ms per user, max-wait: 20s}
  slow:  {limit: 1 per minute per user, max-wait: 100s}
  model: {limit: 1000 tokens per minute per tenant}
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
