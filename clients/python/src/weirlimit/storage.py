"""A storage for the package limits, 2.8 or newer, and so for Flask-Limiter and SlowAPI::

    import weirlimit.storage  # makes weir:// known to limits

    Limiter(key, storage_uri="weir://127.0.0.1:7073", strategy="moving-window")

The server needs ``--inline-policies``. Each limit of the application is a policy of the server,
such as ``inline.limits-10-per-60s``, with one history for each key of the package.

- ``weir://host:port`` and ``weirs://`` with TLS are RESP; ``weir+unix:///path`` a Unix socket;
  ``weir+http://`` and ``weir+https://`` HTTP. ``async+`` before them is for ``limits.aio``.
- Options are those of :class:`weirlimit.Weir`: ``storage_options={"token": "…"}``.
- Without weir a call raises UnavailableError, so the package's ``in_memory_fallback_enabled`` and
  ``swallow_errors`` decide. With ``when_down="allow"`` it passes.
- The other strategies are rejected: they let more than the limit pass, which is why one comes here.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, Tuple, Type, Union

import limits.aio.storage
import limits.storage
from limits.errors import ConfigurationError

from . import asyncio as aio
from . import client, tasks, threads
from .calls import Target
from .core import LimiterCore, Steps
from .decision import Decision
from .errors import InputError, WeirError
from .inputs import MAX_VALUE_BYTES

SCHEMES = ["weir", "weirs", "weir+unix", "weir+http", "weir+https"]

# Seconds of the units at the end of a key of the package.
UNITS = {
    "second": 1,
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "month": 30 * 86_400,
    "year": 360 * 86_400,
}


def url_of(uri: str) -> str:
    """Returns the URL of a client for the URI of a storage."""
    scheme, _, rest = uri.partition(":")
    scheme = scheme[len("async+") :] if scheme.startswith("async+") else scheme
    scheme = scheme[len("weir+") :] if scheme.startswith("weir+") else scheme
    return f"{scheme}:{rest}"


OTHER_STRATEGY = (
    'weir:// counts rolling windows; set strategy="moving-window" (RATELIMIT_STRATEGY of '
    'Flask-Limiter), since "fixed-window", the default, lets twice the limit pass'
)
NO_RESET = "weir has no reset of all keys; clear each, or restart it"


class History:
    """The calls about one key of the package."""

    def __init__(self, weir: Any, key: str, limit: int, expiry: int) -> None:
        self._when_down = weir._core.options.when_down
        self._limit, self._expiry = limit, expiry
        target = Target(f"limits-{limit}-per-{expiry}s", (f"{limit} per {expiry}s per key",))
        self._core = LimiterCore(weir._core, target)
        self._key = {"key": short(key)}

    def acquire(self, amount: int) -> Steps[bool]:
        """Takes units if they fit."""
        decision = yield from self._core.take(self._key, amount, None)
        self._require(decision)
        return decision.allowed

    def window(self) -> Steps[Tuple[float, int]]:
        """Returns the instant of the oldest unit that counts, and the number of units."""
        decision = yield from self._core.peek(self._key, 1)
        self._require(decision)
        used = self._limit - decision.remaining
        if decision.error is not None or used <= 0:
            return time.time(), 0
        if decision.remaining > 0:  # the wait for one unit more than is left: the oldest leaves
            decision = yield from self._core.peek(self._key, decision.remaining + 1)
            self._require(decision)
        wait = min(decision.retry_after, decision.reset_after)
        return time.time() + wait - self._expiry, used  # late by the time of the answer, not early

    def clear(self) -> Steps[None]:
        """Forgets the key."""
        yield from self._core.reset(self._key, ())

    def _require(self, decision: Decision) -> None:
        """Raises if weir did not answer, unless calls pass then."""
        if decision.error is not None and self._when_down == "deny":
            raise decision.error


def history_of(weir: Any, key: str) -> History:
    """Returns the history of a key by its last parts: amount, multiples and unit."""
    parts = key.rsplit("/", 3)
    if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit() and parts[3] in UNITS:
        return History(weir, key, int(parts[1]), int(parts[2]) * UNITS[parts[3]])
    raise InputError(
        f"{key!r} does not end with amount/multiples/unit, as keys of RateLimitItem do; "
        "clear the item with the limiter of the package"
    )


def short(key: str) -> str:
    """Returns the key, or a hash of one that is too long, or no valid Unicode."""
    data = key.encode(errors="surrogatepass")
    if len(data) <= MAX_VALUE_BYTES and data.decode(errors="replace") == key:
        return key
    return "sha256:" + hashlib.sha256(data).hexdigest()


class WeirStorage(limits.storage.Storage, limits.storage.MovingWindowSupport):
    """The storage of limits and of limits.strategies."""

    STORAGE_SCHEME = SCHEMES

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._weir = client.Weir(url_of(uri), **options)

    @property
    def base_exceptions(self) -> Union[Type[Exception], Tuple[Type[Exception], ...]]:
        return WeirError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return threads.run(
            History(self._weir, key, limit, expiry).acquire(amount), self._weir._pool
        )

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        return threads.run(History(self._weir, key, limit, expiry).window(), self._weir._pool)

    def clear(self, key: str) -> None:
        threads.run(history_of(self._weir, key).clear(), self._weir._pool)

    def check(self) -> bool:
        try:
            self._weir.ping()
        except WeirError:
            return False
        return True

    def reset(self) -> None:
        raise NotImplementedError(NO_RESET)

    def incr(self, key: str, expiry: int, amount: int = 1, **_: Any) -> int:
        raise ConfigurationError(OTHER_STRATEGY)

    def get(self, key: str) -> int:
        raise ConfigurationError(OTHER_STRATEGY)

    def get_expiry(self, key: str) -> float:
        raise ConfigurationError(OTHER_STRATEGY)


class AsyncWeirStorage(limits.aio.storage.Storage, limits.aio.storage.MovingWindowSupport):
    """The storage of limits.aio."""

    STORAGE_SCHEME = ["async+" + scheme for scheme in SCHEMES]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self._weir = aio.Weir(url_of(uri), **options)

    @property
    def base_exceptions(self) -> Union[Type[Exception], Tuple[Type[Exception], ...]]:
        return WeirError

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        history = History(self._weir, key, limit, expiry)
        return await tasks.run(history.acquire(amount), self._weir._pool)

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> Tuple[float, int]:
        history = History(self._weir, key, limit, expiry)
        return await tasks.run(history.window(), self._weir._pool)

    async def clear(self, key: str) -> None:
        await tasks.run(history_of(self._weir, key).clear(), self._weir._pool)

    async def check(self) -> bool:
        try:
            await self._weir.ping()
        except WeirError:
            return False
        return True

    async def reset(self) -> None:
        raise NotImplementedError(NO_RESET)

    async def incr(self, key: str, expiry: int, amount: int = 1, **_: Any) -> int:
        raise ConfigurationError(OTHER_STRATEGY)

    async def get(self, key: str) -> int:
        raise ConfigurationError(OTHER_STRATEGY)

    async def get_expiry(self, key: str) -> float:
        raise ConfigurationError(OTHER_STRATEGY)
