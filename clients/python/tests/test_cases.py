"""The shared cases of all languages, with the blocking client and that of asyncio."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import weirlimit
import weirlimit.asyncio

from .stand import CASES, stand

ABREAST = 8  # cases at the same time: each waits for servers and timeouts
PATIENCE = 60  # seconds for a call that is repeated until it has its answer

KINDS = {
    "input": weirlimit.InputError,
    "auth": weirlimit.AuthError,
    "unavailable": weirlimit.UnavailableError,
    "settled": weirlimit.SettledError,
    "expired": weirlimit.ExpiredError,
    "protocol": weirlimit.ProtocolError,
}


def without_unit(text):
    """Returns the part of a sentence in which seconds are no milliseconds."""
    return text.partition(" a whole number of milliseconds")[0]


class Blocking:
    """Makes the calls of the blocking client."""

    module = weirlimit

    def run(self, made):
        return made

    def parallel(self, times, call):
        with ThreadPoolExecutor(times) as pool:
            return list(pool.map(lambda _: call(), range(times)))

    def close(self):
        pass


class Asyncio:
    """Makes the calls of the client of asyncio, in a loop of its own."""

    module = weirlimit.asyncio

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, made):
        async def wait():
            return await made

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    def parallel(self, times, call):
        async def all():
            return await asyncio.gather(*(call() for _ in range(times)))

        return self.run(all())

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Run:
    """One case over one front, with one client."""

    def __init__(self, case, front, driver):
        self.case, self.front, self.driver = case, front, driver
        self.saved = {}

    def __call__(self):
        with stand().server(self.case.get("server", "main")) as self.server:
            self.clients = {}
            for step in self.case["steps"]:
                self.step(step)
            for client in self.clients.values():
                closed = client.close()
                if closed is not None:
                    self.driver.run(closed)

    def client(self, front):
        if front not in self.clients:
            settings = self.case.get("client", {})
            self.clients[front] = self.driver.module.Weir(
                self.server.url(front),
                token=settings.get("token", self.server.token),
                timeout=settings.get("timeout_ms", 20_000) / 1000,
                total_timeout=settings.get("total_ms", 40_000) / 1000,
                retries=settings.get("retries", 2),
                when_down=settings.get("when_down", "deny"),
                tls=self.server.tls,
            )
        return self.clients[front]

    def step(self, step):
        if "fault" in step:
            self.server.fail(step["fault"])
        elif "until" in step:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    return self.call(step["until"])
                except AssertionError:
                    if time.monotonic() > end:
                        raise
        elif "parallel" in step:
            begun = time.monotonic()
            made = self.driver.parallel(step["parallel"], lambda: self.make(step))
            elapsed_ms = (time.monotonic() - begun) * 1000
            allowed = sum(decision.allowed for decision in made)
            assert allowed == step["want_allowed"], f"{step}: {allowed} calls were allowed"
            if "want" in step:
                assert matches(elapsed_ms, step["want"]["elapsed_ms"]), f"{step}: {elapsed_ms} ms"
        else:
            self.call(step)

    def call(self, step):
        wanted = step.get("error")
        begun = time.monotonic()
        try:
            made = self.driver.run(self.make(step))
        except weirlimit.WeirError as err:
            right = wanted is not None and isinstance(err, KINDS[wanted["kind"]])
            text = wanted.get("text", "") if wanted else ""
            if not right or without_unit(text) not in str(err):
                raise AssertionError(f"{step}: {type(err).__name__}: {err}") from err
            return
        assert wanted is None, f"{step}: {made}"
        got = members(made, self.saved.get(step.get("of")))
        got["elapsed_ms"] = (time.monotonic() - begun) * 1000
        if "save" in step:
            self.saved[step["save"]] = made
        for name, want in step.get("want", {}).items():
            assert matches(got[name], want), f"{step}: {name} is {got[name]!r}, in {got}"

    def make(self, step):
        """Makes the call, or returns what must be awaited."""
        verb, of = step["call"], self.saved.get(step.get("of"))
        n = {} if "n" not in step else {"n": step["n"]}
        if verb in ("settle", "add", "extend", "done", "cancel"):
            arguments = [step["actual"]] if verb == "settle" else n.values()
            return getattr(of, verb)(*arguments)
        weir = self.client(step.get("front", self.front))
        if "limit" in step:
            limiter = weir.limit(step["limit"], **pick(step, "name"))
        else:
            limiter = weir.policy(step["policy"])
        key = {name: long(value) for name, value in step.get("key", {}).items()}
        named = {**n, **pick(step, "limits", "id")}
        if "id" in named:
            named["id"] = long(named["id"])
        if verb == "refund":
            return limiter.refund(key, step.get("at_us", of), **named)
        if verb == "block":
            return limiter.block(key, step["for_ms"] / 1000, **named)
        if "max_wait_ms" in step:
            named["max_wait"] = step["max_wait_ms"] / 1000
        if "ttl_ms" in step:
            named["ttl"] = step["ttl_ms"] / 1000
        return getattr(limiter, verb)(key, **named)


def pick(step, *names):
    return {name: step[name] for name in names if name in step}


def long(value):
    """Returns a long text as it is written in short."""
    return value["repeat"] * value["times"] if isinstance(value, dict) else value


def members(made, of):
    """Returns the members of an answer, with the names of the cases."""
    if isinstance(made, int):
        return {"refunded": made}
    found = {}
    if made is not None:
        decision = getattr(made, "decision", made)
        found = dict(vars(decision))
    reservation = made if hasattr(made, "units") else of
    if hasattr(reservation, "units"):
        found["units"] = reservation.units
    for name in ("retry_after", "reset_after", "start_after"):
        if name in found:
            wait = found[name]
            found[name + "_ms"] = -1 if wait == math.inf else round(wait * 1000)
    return found


def matches(got, want):
    if isinstance(got, tuple):
        return list(got) == want
    if isinstance(got, bool):
        return got in want if isinstance(want, list) else got == want
    if isinstance(want, list):
        return want[0] <= got <= want[1]
    return got == want


class SharedCases(unittest.TestCase):
    def test_blocking(self):
        self.run_all(Blocking)

    def test_asyncio(self):
        self.run_all(Asyncio)

    def run_all(self, kind):
        runs = []
        for case in CASES["cases"]:
            for front in case.get("fronts", ["resp", "http"]):
                runs.append((case, front))
        with ThreadPoolExecutor(ABREAST) as pool:
            results = list(pool.map(lambda run: self.run_one(kind, *run), runs))
        problems = [problem for problem in results if problem]
        self.assertGreaterEqual(len(runs), 100)
        self.assertEqual(problems, [], "\n".join(["", *problems]))

    def run_one(self, kind, case, front):
        driver = kind()
        try:
            Run(case, front, driver)()
        except Exception as err:  # reported with the others
            return f"{case['name']} ({front}): {type(err).__name__}: {err}"
        finally:
            driver.close()
        return ""
