"""What the blocking client and that of asyncio share: everything but the calls.

A method that makes a call stands in client.py and in asyncio.py, because one of them has an await.
"""

from __future__ import annotations

import ssl
from datetime import datetime
from typing import Callable, Generic, Optional, TypeVar

from .address import Address, parse
from .calls import Target
from .core import Core, LimiterCore, Options, ReservationCore
from .decision import Decision, instant
from .errors import UnavailableError
from .inputs import (
    NAMED_LIMIT,
    NAMED_POLICY,
    NAMED_RESERVATION,
    Limits,
    check_limits,
    check_name,
)

Pool = TypeVar("Pool")
Limiter = TypeVar("Limiter")
Reservation = TypeVar("Reservation")


class WeirBase(Generic[Pool, Limiter, Reservation]):
    """A client with its pool of connections, its limiters and its reservations."""

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
        self._pool = self._new_pool(self._core.address, max_pending)

    def _new_pool(self, address: Address, max_pending: int) -> Pool:
        raise NotImplementedError

    def _new_limiter(self, target: Target) -> Limiter:
        raise NotImplementedError

    def _new_reservation(self, decision: Decision, core: ReservationCore) -> Reservation:
        raise NotImplementedError

    def limit(self, limits: Limits, *, name: str = "") -> Limiter:
        """Returns a limiter whose limits stand here, such as "10 per minute per user, 3s apart".

        The server needs ``--inline-policies``. Its histories belong to the name; without one it is
        made of the limits, so other numbers begin with empty histories. Give a name before that.
        """
        lines = check_limits(limits)
        named = check_name(name, NAMED_LIMIT) if name != "" else ""
        return self._new_limiter(Target(named, lines))

    def policy(self, name: str) -> Limiter:
        """Returns a limiter of a policy of the server's file."""
        return self._new_limiter(Target(check_name(name, NAMED_POLICY)))

    def reservation(self, id: str) -> Reservation:
        """Returns the reservation with an id, such as one of another process. It sends nothing."""
        known = ReservationCore(self._core, check_name(id, NAMED_RESERVATION), None)
        return self._new_reservation(Decision(True), known)


class LimiterBase(Generic[Pool]):
    """A limiter without its calls."""

    def __init__(self, core: Core, pool: Pool, target: Target) -> None:
        self._core = LimiterCore(core, target)
        self._pool = pool

    @property
    def name(self) -> str:
        """The name of its policy; "" if weir makes one of the limits."""
        return self._core.target.name


class ReservationBase(Generic[Pool]):
    """A reservation without its calls."""

    def __init__(self, pool: Pool, decision: Decision, core: ReservationCore) -> None:
        self._core = core
        self._pool = pool
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

    def __bool__(self) -> bool:
        return self.allowed
