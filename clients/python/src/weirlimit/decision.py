"""The results of calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Optional, Tuple

from .errors import UnavailableError

NEVER = math.inf  # a wait that never ends: more units than a limit allows


@dataclass(frozen=True)
class Decision:
    """The answer to an attempt. It is true if the attempt was granted: ``if limiter.take(key)``.

    Times are seconds. They are rounded up to a millisecond, so obeying one is never too early.
    """

    allowed: bool
    granted: int = 0  # units
    remaining: int = 0  # units that fit now; may be below 0
    retry_after: float = 0  # until the same attempt is granted in full; NEVER if it never is
    reset_after: float = 0  # until nothing of the key counts
    limit: str = ""  # the limit that denied; "" if none did
    at_us: int = 0  # the instant of the decision, microseconds since 1970, for a refund
    start_after: float = 0  # of a wait: until the granted instant
    start_us: int = 0  # of a wait: that instant, as at_us; 0 of a replay
    degraded: bool = False  # weir's store, or weir itself, did not answer
    cached: bool = False  # a denial that weir repeats from memory
    replayed: bool = False  # the answer to an earlier call with the same id
    error: Optional[UnavailableError] = None  # why weir did not answer, and when_down decided

    def __bool__(self) -> bool:
        return self.allowed


def decision_of(members: Dict[str, Any]) -> Decision:
    """Returns the decision in the members of an answer."""
    return Decision(
        allowed=members["allowed"],
        granted=members["granted"],
        remaining=members["remaining"],
        retry_after=seconds(members["retry_after_ms"]),
        reset_after=seconds(members["reset_after_ms"]),
        limit=members["limit"],
        at_us=members["at_us"],
        start_after=members.get("start_after_ms", 0) / 1000,
        start_us=members.get("start_us", 0),
        degraded=members.get("degraded", False),
        cached=members.get("cached", False),
        replayed=members.get("replayed", False),
        error=members.get("error"),
    )


def seconds(milliseconds: int) -> float:
    """Returns a wait in seconds; −1 stands for never."""
    return NEVER if milliseconds < 0 else milliseconds / 1000


def instant(us: int) -> Optional[datetime]:
    """Returns an instant of microseconds since 1970; 0 stands for none."""
    return EPOCH + timedelta(microseconds=us) if us else None


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Settlement:
    """The answer to a settlement, in units."""

    reserved: int
    actual: int
    refunded: int
    recorded: int


@dataclass(frozen=True)
class Reset:
    """The answer to a reset: the names of the limits."""

    reset: Tuple[str, ...]
    kept: Tuple[str, ...]  # that the key shares with others


@dataclass(frozen=True)
class Block:
    """The answer to a block."""

    limits: Tuple[str, ...]  # their names
    until: Optional[datetime]  # the end of the longest one, in UTC; None if none runs
