"""The blocking client. It is safe for threads; a child process after a fork connects anew."""

from __future__ import annotations

import ssl
from datetime import datetime
from types import TracebackType
from typing import Callable, Optional, Sequence, Type, Union

from . import threads
from .address import parse
from .calls import Target
from .core import Core, LimiterCore, Options, ReservationCore
from .decision import Block, Decision, Reset, Settlement, instant
from .errors import UnavailableError
from .inputs import (
    NAMED_LIMIT,
    NAMED_POLICY,
    NAMED_RESERVATION,
    NO_KEY,
    Key,
    Limits,
    check_limits,
    check_name,
)


class Weir:
    """A client of one ``weir serve``. Make one for a program and share it.

    :param url: ``redis://host:port``, of ``--resp-listen``, the fastest; ``rediss://`` for TLS;
        ``unix:/path``; ``http://`` or ``https://`` where only ``--listen`` is reached. Default:
        WEIR_URL of the environment.
    :param token: the token of ``weir serve --token-file``.
    :param timeout: seconds for one attempt of a call.
    :param total_timeout: seconds for a call with its retries.
    :param retries: further attempts, with an idempotency key of the call: it is charged once.
    :param when_down: the decision without weir: ``"deny"`` or ``"allow"``.
    :param on_down: called with the error of the first such decision of an outage; default: a
        warning is logged (logger ``weirlimit``).
    :param on_up: called with nothing when weir decides again.
    :param max_pending: calls in flight at the same time; more are decided by ``when_down``.
    :param breaker: failed calls in a row after which calls are not sent, but for a probe every
        0.1 to 0.5 s; 0 = never.
    :param tls: for ``rediss://`` and ``https://``; default: ``ssl.create_default_context()``.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        token: Optional[str] = None,
        timeout: float = 0.25,
        total_timeout: float = 1.0,
        retries: int = 2,
        when_down: str = "deny",
        on_down: Optional[Callable[[UnavailableError], None]] = None,
        on_up: Optional[Callable[[], None]] = None,
        max_pending: int = 10_000,
        breaker: int = 5,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        options = Options(
            timeout, total_timeout, retries, when_down, on_down, on_up, max_pending, breaker
        )
        self._core = Core(parse(url, token, tls), options)
        self._pool = threads.Pool(self._core.address, max_pending)

    def limit(self, limits: Limits, *, name: str = "") -> "Limiter":
        """Returns a limiter whose limits stand here, such as "10 per minute per user, 3s apart".

        The server needs ``--inline-policies``. Its histories belong to the name; without one it is
        made of the limits, so other numbers begin with empty histories. Give a name before that.
        """
        lines = check_limits(limits)
        named = check_name(name, NAMED_LIMIT) if name != "" else ""
        return Limiter(self, Target(named, lines))

    def policy(self, name: str) -> "Limiter":
        """Returns a limiter of a policy of the server's file."""
        return Limiter(self, Target(check_name(name, NAMED_POLICY)))

    def reservation(self, id: str) -> "Reservation":
        """Returns the reservation with an id, such as one of another process. It sends nothing."""
        known = ReservationCore(self._core, check_name(id, NAMED_RESERVATION), None)
        return Reservation(self, Decision(True), known)

    def ping(self) -> None:
        """Raises a WeirError unless weir answers and accepts the token."""
        threads.run(self._core.ping(), self._pool)

    def close(self) -> None:
        """Ends the connections, and the calls in flight."""
        self._pool.close()

    def __enter__(self) -> "Weir":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class Limiter:
    """The calls about the keys of one policy, such as ``{"user": "ann"}``.

    ``id`` is an idempotency key of 1 to 128 bytes: a call that is made again with it, also by
    another process, gets the first answer and is charged once. Without it each call has its own.
    """

    def __init__(self, weir: Weir, target: Target) -> None:
        self._weir = weir
        self._core = LimiterCore(weir._core, target)

    @property
    def name(self) -> str:
        """The name of its policy; "" if weir makes one of the limits."""
        return self._core.target.name

    def take(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Takes n units if they fit now, all or none."""
        return threads.run(self._core.take(key, n, id), self._weir._pool)

    def peek(self, key: Key = NO_KEY, n: int = 1) -> Decision:
        """Returns the decision that take would make now, and changes nothing."""
        return threads.run(self._core.peek(key, n), self._weir._pool)

    def wait(
        self, key: Key = NO_KEY, n: int = 1, *, max_wait: float, id: Optional[str] = None
    ) -> Decision:
        """Takes n units at the first instant at which they fit, and returns at that instant.

        It is denied immediately if that is more than max_wait seconds away, which are at most
        max-wait of the policy, by default its longest window. Callers of a key are
        served in their order. One call is sent, and none while it sleeps. If the sleep is
        interrupted, the units are given back.
        """
        return threads.run(self._core.wait(key, n, max_wait, id), self._weir._pool)

    def record(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Adds n units that were used already, without a decision."""
        return threads.run(self._core.record(key, n, id), self._weir._pool)

    def count(self, key: Key, last: float, *, limit: Optional[str] = None) -> int:
        """Returns the units that a rolling limit recorded in the last seconds."""
        return threads.run(self._core.count(key, last, limit), self._weir._pool)

    def refund(
        self, key: Key, of: Union[Decision, int], n: int = 1, *, id: Optional[str] = None
    ) -> int:
        """Gives units back, and returns their number. of is the grant, or its at_us."""
        return threads.run(self._core.refund(key, of, n, id), self._weir._pool)

    def reset(self, key: Key = NO_KEY, *, limits: Sequence[str] = ()) -> Reset:
        """Forgets the histories of a key, in the limits of these names. For operators."""
        return threads.run(self._core.reset(key, limits), self._weir._pool)

    def block(self, key: Key, duration: float, *, limits: Sequence[str] = ()) -> Block:
        """Denies a key for so many seconds; 0 ends its blocks. For operators."""
        return threads.run(self._core.block(key, duration, limits), self._weir._pool)

    def reserve(
        self,
        key: Key = NO_KEY,
        n: int = 1,
        *,
        ttl: Optional[float] = None,
        max_wait: Optional[float] = None,
        id: Optional[str] = None,
    ) -> "Reservation":
        """Takes n units that are settled later with those that were used::

            with limiter.reserve({"tenant": "acme"}, 600) as answer:
                if answer.allowed:
                    answer.settle(tokens())

        :param ttl: seconds until it expires; default and most: the longest window of the policy.
        :param max_wait: waits for so many seconds at most, as wait does.
        """
        decision, opened = threads.run(
            self._core.reserve(key, n, ttl, max_wait, id), self._weir._pool
        )
        return Reservation(self._weir, decision, opened)


class Reservation:
    """Units that are settled once. At the end of a with statement all of them are, if they were
    not settled before."""

    def __init__(self, weir: Weir, decision: Decision, core: ReservationCore) -> None:
        self._weir = weir
        self._core = core
        self.decision = decision

    @property
    def allowed(self) -> bool:
        """Whether the units were granted."""
        return self.decision.allowed

    @property
    def id(self) -> str:
        """The text with which any process settles it; "" without a grant of weir."""
        return self._core.id

    @property
    def units(self) -> Optional[int]:
        """The reserved units; None if they are unknown."""
        return self._core.units

    @property
    def expires_at(self) -> Optional[datetime]:
        """The end of its life, in UTC; None if it is unknown."""
        return instant(self._core.expires_us)

    @property
    def held_until(self) -> Optional[datetime]:
        """The end of its hold under a concurrency limit, in UTC; None without one."""
        return instant(self._core.held_until_us)

    def settle(self, actual: int) -> Settlement:
        """Settles it with the units that were used. The same number again changes nothing."""
        return threads.run(self._core.settle(actual), self._weir._pool)

    def done(self) -> Settlement:
        """Settles it with all units, and ends its hold."""
        return threads.run(self._core.settle(None), self._weir._pool)

    def cancel(self) -> Settlement:
        """Gives all units back."""
        return threads.run(self._core.settle(0), self._weir._pool)

    def extend(self) -> None:
        """Renews its life, and its hold."""
        threads.run(self._core.extend(), self._weir._pool)

    def add(self, n: int) -> Decision:
        """Takes n units more, all or none. After a denial it stays open."""
        return threads.run(self._core.add(n), self._weir._pool)

    def __bool__(self) -> bool:
        return self.allowed

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        threads.run(self._core.leave(error), self._weir._pool)
