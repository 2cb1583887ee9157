"""Calls through a network that delays, cuts and duplicates. WEIR_SOAK_CALLS is their number.

`make soak-clients` makes 100,000 with the timeouts of a program, and stops the network now and then.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import weirlimit.asyncio

from .stand import stand
from .test_client import PATIENT, Case

SOAK = "WEIR_SOAK_CALLS" in os.environ
CALLS = int(os.environ.get("WEIR_SOAK_CALLS", "3000"))
MOST = 1_000_000_000
POLICIES = f"version: 1\npolicies:\n  much: {{limit: {MOST} per hour per user}}\n"
MIX = {"kind": "mix", "percent": 1, "least_ms": 0, "most_ms": 5}
OPTIONS = {"timeout": 2, "total_timeout": 20, "retries": 20, "breaker": 0}
if SOAK:
    OPTIONS.update(timeout=0.25, total_timeout=1.0)


class Tally:
    """What callers got."""

    def __init__(self):
        self.lock = threading.Lock()
        self.calls = self.granted = self.undecided = 0
        self.longest = 0.0

    def add(self, begun, decision):
        took = time.monotonic() - begun
        with self.lock:
            self.calls += 1
            self.longest = max(self.longest, took)
            if decision.error is not None:
                self.undecided += 1
            else:
                self.granted += decision.granted


@contextmanager
def faults(server):
    """Sets the faults, and with SOAK stops the network for 300 ms every 3 s."""
    ended = threading.Event()

    def stall():
        while SOAK and not ended.wait(3):
            server.fail({"kind": "silence"})
            ended.wait(0.3)
            server.fail(MIX)

    server.fail(MIX)
    thread = threading.Thread(target=stall)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        server.fail({"kind": "none"})


class Faults(Case):
    """Every unit is charged once, and no call lasts longer than its timeout by more than 10 %."""

    def test_threads_over_resp(self):
        self.charges_once("resp", self.threads)

    def test_threads_over_http(self):
        self.charges_once("http", self.threads)

    def test_tasks_over_resp(self):
        self.charges_once("resp", self.tasks)

    def test_tasks_over_http(self):
        self.charges_once("http", self.tasks)

    def charges_once(self, front, run):
        key, tally, calls = {"user": "张三"}, Tally(), CALLS // 4
        with stand().server(policies=POLICIES) as server:
            with faults(server):
                run(server.url(front), key, calls, tally)
            direct = self.open(server.url("resp", direct=True), **PATIENT)
            charged = MOST - direct.policy("much").peek(key).remaining
        print(
            f"{run.__name__} over {front}: {tally.calls} calls, {tally.granted} units granted, "
            f"{charged} charged, {tally.undecided} calls undecided, the longest took "
            f"{tally.longest * 1000:.0f} ms of {OPTIONS['total_timeout'] * 1000:.0f}"
        )
        self.assertEqual(tally.calls, calls)
        # An undecided call may have been charged: its outcome is unknown.
        self.assertTrue(tally.granted <= charged <= tally.granted + tally.undecided)
        self.assertLessEqual(tally.undecided, calls / 100)
        self.assertLessEqual(tally.longest, OPTIONS["total_timeout"] * 1.1)

    def threads(self, url, key, calls, tally):
        much = self.open(url, **OPTIONS).policy("much")

        def call(_):
            begun = time.monotonic()
            tally.add(begun, much.take(key))

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(call, range(calls)))

    def tasks(self, url, key, calls, tally):
        async def main():
            async with weirlimit.asyncio.Weir(url, **OPTIONS) as weir:
                much, left = weir.policy("much"), iter(range(calls))

                async def worker():
                    for _ in left:
                        begun = time.monotonic()
                        tally.add(begun, await much.take(key))

                await asyncio.gather(*(worker() for _ in range(32)))

        asyncio.run(main())
