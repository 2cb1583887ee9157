"""Stops calls to a server that does not answer, so that callers do not wait for timeouts."""

from __future__ import annotations

import random
import threading

from .forks import renew_after_fork

THRESHOLD = 5  # failures in a row after which the server is taken to be down
LEAST_PAUSE, MOST_PAUSE = 0.1, 0.5  # seconds between two probes


class Breaker:
    """Counts failures. While the server is down, one call at a time probes it.

    It is safe for threads.
    """

    def __init__(self, threshold: int = THRESHOLD) -> None:
        self._lock = threading.Lock()  # protects the following
        self._threshold = threshold
        self._failures = 0  # in a row
        self._probe_at = 0.0  # the next one
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
        """Notes an answer, and reports whether the server was down."""
        with self._lock:
            was_down = self._failures >= self._threshold
            self._failures = 0
            return was_down

    def fail(self, now: float) -> bool:
        """Notes a failure, and reports whether the server is down from now on."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._threshold:
                self._probe_at = now + random.uniform(LEAST_PAUSE, MOST_PAUSE)
            return self._failures == self._threshold
