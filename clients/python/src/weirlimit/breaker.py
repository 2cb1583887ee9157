"""Stops calls to a server that does not answer, so that callers do not wait for timeouts."""

from __future__ import annotations

import math
import random
import threading

from .forks import renew_after_fork

LEAST_PAUSE, MOST_PAUSE = 0.1, 0.5  # seconds between two probes


class Breaker:
    """Counts failures. While the server is down, one call at a time probes it.

    It is safe for threads.
    """

    def __init__(self, threshold: int) -> None:
        self._lock = threading.Lock()  # protects the following
        self._threshold = threshold or math.inf
        self._failures = 0  # in a row
        self._probe_at = 0.0  # the next one
        self._out = False  # the last call got no decision
        self.cause = ""  # the last failure
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def admits(self, now: float) -> bool:
        """Reports whether a call may be sent. While the server is down, it claims the probe."""
        with self._lock:
            if self._failures < self._threshold:
                return True
            if now < self._probe_at:
                return False
            self._probe_at = now + random.uniform(LEAST_PAUSE, MOST_PAUSE)
            return True

    def succeed(self) -> bool:
        """Notes an answer, and reports whether it is the first one after an outage."""
        with self._lock:
            was_out, self._out = self._out, False
            self._failures = 0
            return was_out

    def give_up(self) -> bool:
        """Notes a call without a decision, and reports whether it is the first one of an outage."""
        with self._lock:
            was_out, self._out = self._out, True
            return not was_out

    def fail(self, now: float, cause: str) -> None:
        """Notes a call that failed, with its retries."""
        with self._lock:
            self._failures += 1
            self.cause = cause
            if self._failures >= self._threshold:
                self._probe_at = now + random.uniform(LEAST_PAUSE, MOST_PAUSE)
