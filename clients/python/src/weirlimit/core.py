"""Calls without input and output: what is sent, when it is repeated, and what its answer means.

A call is a generator. It yields a step, and gets its outcome: of Send an answer or an error, of
Pause nothing. The drivers in threads.py and tasks.py make the steps. So the blocking client and
that of asyncio share every decision of this file.
"""

from __future__ import annotations

import logging
import os
import random
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generator, Optional, Sequence, Tuple, TypeVar, Union

from . import calls, inputs
from .address import Address
from .breaker import Breaker
from .calls import Call, Pairs, Target
from .decision import Block, Decision, Reset, Settlement, decision_of, instant
from .errors import (
    BusyError,
    ExpiredError,
    InputError,
    ProtocolError,
    UnavailableError,
    WeirError,
)

logger = logging.getLogger("weirlimit")

LEAST_BACKOFF, MOST_BACKOFF = (
    0.025,
    0.075,
)  # seconds before the second retry; the first is immediate
CANCEL_TIMEOUT = 1.0  # seconds for giving an appointment back


@dataclass(frozen=True)
class Send:
    """Sends a call, and waits for the answer until an instant of time.monotonic()."""

    call: Call
    deadline: float


@dataclass(frozen=True)
class Pause:
    """Sleeps for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Arrived:
    """An answer, which the codec of its connection reads."""

    read: Callable[[Call, Any], Dict[str, Any]]
    answer: Any


Outcome = Union[Arrived, WeirError, None]
T = TypeVar("T")
Steps = Generator[Union[Send, Pause], Outcome, T]


@dataclass(frozen=True)
class Options:
    """The settings of a client. Times are seconds."""

    timeout: float = 0.25  # of one attempt
    total_timeout: float = 1.0  # of a call with its retries
    retries: int = 2  # further attempts with the same id
    when_down: str = "deny"  # the decision without weir: deny or allow
    on_down: Optional[Callable[[UnavailableError], None]] = None  # None = a warning is logged
    on_up: Optional[Callable[[], None]] = None
    max_pending: int = 10_000  # calls in flight or waiting; more are decided by when_down
    breaker: int = 5  # failed calls in a row after which calls are not sent; 0 = never

    def __post_init__(self) -> None:
        inputs.check_seconds(self.timeout, "timeout", least_ms=1)
        inputs.check_seconds(self.total_timeout, "total_timeout", least_ms=1)
        inputs.check_number(self.retries, "retries", 0, 100)
        inputs.check_number(self.max_pending, "max_pending", 1, 1_000_000)
        inputs.check_number(self.breaker, "breaker", 0, 1_000_000)
        if self.when_down not in ("deny", "allow"):
            raise InputError(
                f'when_down must be "deny" or "allow", not {inputs.shown(self.when_down)}'
            )
        for name, function in (("on_down", self.on_down), ("on_up", self.on_up)):
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function, not {inputs.shown(function)}")


class Core:
    """The calls of a client. It is safe for threads."""

    def __init__(self, address: Address, options: Options) -> None:
        self.address = address
        self.options = options
        self._breaker = Breaker(options.breaker)

    def exchange(self, call: Call, total: Optional[float] = None) -> Steps[Dict[str, Any]]:
        """Sends a call until it has an answer, and returns its members."""
        options = self.options
        end = time.monotonic() + (options.total_timeout if total is None else total)
        for attempt in range(options.retries + 1):
            now = time.monotonic()
            if not self._breaker.admits(now):
                away = BusyError(f"weir is away: {self._breaker.cause}")
                self._note_outage(away)
                raise away
            outcome = yield Send(call, min(now + options.timeout, end))
            try:
                members = read(call, outcome)
            except BusyError as err:
                self._note_outage(err)
                raise
            except UnavailableError as err:
                failure = err
            except WeirError as err:
                if isinstance(outcome, Arrived) and not isinstance(err, ProtocolError):
                    self._note_success()  # an answer of weir, although no decision
                raise
            else:
                self._note_success()
                return members
            backoff = attempt * random.uniform(LEAST_BACKOFF, MOST_BACKOFF)
            if attempt == options.retries or time.monotonic() + backoff >= end:
                break
            if backoff > 0:
                yield Pause(backoff)
        # A lost connection fails many attempts at once, so calls are counted. A server that answers
        # is not away.
        if not isinstance(outcome, Arrived):
            self._breaker.fail(time.monotonic(), str(failure))
        self._note_outage(failure)
        raise failure

    def _note_success(self) -> None:
        if self._breaker.succeed():
            self._call_back(self.options.on_up)
            if self.options.on_down is None:
                logger.warning("weir at %s decides again", self.address.place)

    def _note_outage(self, err: UnavailableError) -> None:
        if self._breaker.give_up():
            self._call_back(self.options.on_down, err)
            if self.options.on_down is None:
                decided = "allowed" if self.options.when_down == "allow" else "denied"
                logger.warning("%s; until it is back attempts are %s", err, decided)

    def _call_back(self, function: Optional[Callable[..., None]], *arguments: Any) -> None:
        """Calls a function of the program. Its error must not stop a decision."""
        if function is None:
            return
        try:
            function(*arguments)
        except Exception:
            logger.exception("%r failed", function)

    def decide(self, call: Call, n: int) -> Steps[Dict[str, Any]]:
        """Returns the members of a decision. Without an answer they have that of when_down."""
        try:
            return (yield from self.exchange(call))
        except UnavailableError as err:
            return {**self.without_weir(n), "error": err}

    def without_weir(self, n: int) -> Dict[str, Any]:
        """Returns the decision of when_down."""
        allowed = self.options.when_down == "allow"
        return {
            "allowed": allowed,
            "granted": n if allowed else 0,
            "remaining": 0,
            "retry_after_ms": 0 if allowed else 1000,
            "reset_after_ms": 0,
            "limit": "",
            "at_us": time.time_ns() // 1000,
            "degraded": True,
        }

    def id_for(self, id: Optional[str]) -> Optional[str]:
        """Returns the idempotency key of a call: that of the program, or one of its own for its
        retries. A call without retries needs none, which saves memory of weir."""
        if inputs.check_id(id) is not None or self.options.retries == 0:
            return id
        return random_id()

    def ping(self) -> Steps[None]:
        """Raises unless weir answers."""
        yield from self.exchange(calls.ping())


def read(call: Call, outcome: Outcome) -> Dict[str, Any]:
    """Returns the members of an answer, or raises the error that came in its place."""
    if isinstance(outcome, WeirError):
        raise outcome
    assert isinstance(outcome, Arrived)
    return outcome.read(call, outcome.answer)


def random_id() -> str:
    """Returns an idempotency key that no other call has, and nobody guesses."""
    return os.urandom(16).hex()


class LimiterCore:
    """The calls about the keys of one policy."""

    def __init__(self, core: Core, target: Target) -> None:
        self.core = core
        self.target = target

    def take(self, key: inputs.Key, n: int, id: Optional[str]) -> Steps[Decision]:
        """Takes units if they fit."""
        pairs, n = inputs.check_key(key), inputs.check_units(n)
        id = self.core.id_for(id)
        members = yield from self.core.decide(
            calls.about_key("check", self.target, pairs, n, id), n
        )
        return decision_of(members)

    def peek(self, key: inputs.Key, n: int) -> Steps[Decision]:
        """Returns the decision that take would make now."""
        pairs, n = inputs.check_key(key), inputs.check_units(n)
        members = yield from self.core.decide(calls.about_key("peek", self.target, pairs, n), n)
        return decision_of(members)

    def wait(self, key: inputs.Key, n: int, max_wait: float, id: Optional[str]) -> Steps[Decision]:
        """Takes units at the first instant at which they fit, and sleeps until then. It reserves
        them, because only a reservation can be cancelled before its start."""
        pairs, n = inputs.check_key(key), inputs.check_units(n)
        max_wait_ms = inputs.check_wait(max_wait)
        decision, _ = yield from self.open(pairs, n, None, max_wait_ms, inputs.check_id(id))
        return decision

    def record(self, key: inputs.Key, n: int, id: Optional[str]) -> Steps[Decision]:
        """Adds units that were used already."""
        pairs, n = inputs.check_key(key), inputs.check_units(n)
        id = self.core.id_for(id)
        call = calls.about_key("record", self.target, pairs, n, id)
        return decision_of((yield from self.core.exchange(call)))

    def count(self, key: inputs.Key, last: float, limit: Optional[str]) -> Steps[int]:
        """Returns the units of the last seconds."""
        pairs = inputs.check_key(key)
        last_ms = inputs.check_seconds(last, "the span to count", least_ms=1)
        if limit is not None:
            inputs.check_name(limit, "limit is the name of a limit")
        members = yield from self.core.exchange(calls.count(self.target, pairs, last_ms, limit))
        return int(members["count"])

    def refund(
        self, key: inputs.Key, of: Union[Decision, int], n: int, id: Optional[str]
    ) -> Steps[int]:
        """Gives units of a grant back, and returns their number."""
        pairs, n = inputs.check_key(key), inputs.check_units(n)
        if not isinstance(of, Decision):
            at_us = inputs.check_number(of, "at_us", 0, inputs.MAX_INSTANT)
        elif of.error is not None:
            return 0  # when_down has decided, so nothing is known to be charged
        else:
            at_us = of.start_us or of.at_us
        id = self.core.id_for(id)
        members = yield from self.core.exchange(calls.refund(self.target, pairs, at_us, n, id))
        return int(members["refunded"])

    def reset(self, key: inputs.Key, limits: Sequence[str]) -> Steps[Reset]:
        """Forgets the histories of a key."""
        pairs = inputs.check_key(key)
        call = calls.reset(self.target, pairs, check_names(limits))
        members = yield from self.core.exchange(call)
        return Reset(tuple(members["reset"]), tuple(members["kept"]))

    def block(self, key: inputs.Key, duration: float, limits: Sequence[str]) -> Steps[Block]:
        """Blocks a key for a time."""
        pairs = inputs.check_key(key)
        for_ms = inputs.check_seconds(duration, "the time of a block")
        call = calls.block(self.target, pairs, for_ms, check_names(limits))
        members = yield from self.core.exchange(call)
        return Block(tuple(members["limits"]), instant(members["until_us"]))

    def reserve(
        self,
        key: inputs.Key,
        n: int,
        ttl: Optional[float],
        max_wait: Optional[float],
        id: Optional[str],
    ) -> Steps[Tuple[Decision, "ReservationCore"]]:
        """Takes units that are settled later."""
        pairs, n = inputs.check_key(key), inputs.check_units(n, least=1)
        ttl_ms = max_wait_ms = None
        if ttl is not None:
            ttl_ms = inputs.check_seconds(ttl, "the life of a reservation", least_ms=1)
        if max_wait is not None:
            max_wait_ms = inputs.check_wait(max_wait)
        return (yield from self.open(pairs, n, ttl_ms, max_wait_ms, inputs.check_id(id)))

    def open(
        self,
        pairs: Pairs,
        n: int,
        ttl_ms: Optional[int],
        max_wait_ms: Optional[int],
        id: Optional[str],
    ) -> Steps[Tuple[Decision, "ReservationCore"]]:
        """Opens a reservation, and sleeps until its start. A call that is interrupted or cancelled
        leaves none behind: without an id of the program nobody could settle it."""
        unique = id or random_id()  # whoever can guess it can settle it
        call = calls.about_key("reserve", self.target, pairs, n, unique, max_wait_ms, ttl_ms)
        try:
            members = yield from self.core.decide(call, n)
        except (GeneratorExit, WeirError):  # nothing more can be sent; nothing was opened
            raise
        except BaseException:  # a cancelled task, or an interrupt from the keyboard
            if id is None:
                yield from self.give_back(call)
            raise
        decision, opened = self.read_opened(members)
        yield from opened.sleep(decision)
        return decision, opened

    def read_opened(self, members: Dict[str, Any]) -> Tuple[Decision, "ReservationCore"]:
        """Returns the decision and the reservation in an answer."""
        decision = decision_of(members)
        opened = ReservationCore(self.core, members.get("reservation", ""), decision.granted)
        opened.note(members)
        return decision, opened

    def give_back(self, call: Call) -> Steps[None]:
        """Cancels a reservation whose answer nobody has read. The call is made again: its
        idempotency key brings the answer."""
        try:
            members = yield from self.core.exchange(call, CANCEL_TIMEOUT)
        except WeirError as err:
            logger.warning("a cancelled reservation perhaps keeps its units: %s", err)
            return
        _, opened = self.read_opened(members)
        yield from opened.cancel()


def check_names(names: Sequence[str]) -> Tuple[str, ...]:
    """Returns the names of limits."""
    if isinstance(names, str):
        names = (names,)
    return tuple(inputs.check_name(name, "limits holds names of limits") for name in names)


class ReservationCore:
    """The calls about one reservation. Without an id there is none, and nothing is sent."""

    def __init__(self, core: Core, id: str, units: Optional[int]) -> None:
        self.core = core
        self.id = id
        self.units = units  # None = unknown
        self.expires_us = 0
        self.held_until_us = 0
        self.settled = id == ""

    def note(self, members: Dict[str, Any]) -> None:
        """Stores the ends in an answer."""
        self.expires_us = members.get("expires_at_us", 0)
        self.held_until_us = members.get("held_until_us", 0)

    def sleep(self, decision: Decision) -> Steps[None]:
        """Sleeps until the reservation starts. If that is interrupted, it is cancelled."""
        if not decision.allowed or decision.start_after <= 0:
            return
        try:
            yield Pause(decision.start_after)
        except GeneratorExit:  # nothing more can be sent
            raise
        except BaseException:  # a cancelled task, or an interrupt from the keyboard
            yield from self.cancel()
            raise

    def cancel(self) -> Steps[None]:
        """Gives an appointment back, if weir answers soon."""
        if not self.id:
            return
        try:
            yield from self.core.exchange(calls.settle(self.id, 0), CANCEL_TIMEOUT)
            self.settled = True
        except WeirError as err:
            logger.warning("a cancelled wait keeps its units: %s", err)

    def settle(self, actual: Optional[int]) -> Steps[Settlement]:
        """Settles the reservation with the units that were used; None settles all."""
        if actual is not None:
            inputs.check_units(actual, "actual")
        if not self.id:
            self._reject_denied()
            units = self.units or 0
            return Settlement(units, units if actual is None else actual, 0, 0)
        members = yield from self.core.exchange(calls.settle(self.id, actual))
        self.settled = True
        return Settlement(**members)

    def _reject_denied(self) -> None:
        """Raises if there is no reservation because it was denied."""
        if not self.units:
            raise InputError("the reservation was denied, so there is none; look at allowed first")

    def leave(self, error: Optional[BaseException]) -> Steps[None]:
        """Settles all units at the end of a with statement, unless they are settled. An error of
        weir must not hide that of the statement, and an expired hold needs no end."""
        if self.settled:
            return
        try:
            yield from self.settle(None)
        except ExpiredError:
            pass
        except WeirError as err:
            if error is None:
                raise
            logger.warning("a reservation is not settled: %s", err)

    def extend(self) -> Steps[None]:
        """Renews the life of the reservation, and its hold."""
        if not self.id:
            self._reject_denied()
            return
        members = yield from self.core.exchange(calls.extend(self.id, 0, None))
        self.units = members["reserved"]
        self.note(members)

    def add(self, n: int) -> Steps[Decision]:
        """Takes further units, all or none."""
        inputs.check_units(n, least=1)
        if not self.id:
            self._reject_denied()
            return decision_of(self.core.without_weir(n))
        if self.units is None:
            yield from self.extend()  # it reads their number
        members = yield from self.core.exchange(calls.extend(self.id, n, self.units))
        decision = decision_of(members)
        if decision.allowed:
            self.units = members["reserved"]
            self.note(members)
        return decision
