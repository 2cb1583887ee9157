"""Which call uses which connection, without input and output. Both kinds of pools decide by it."""

from __future__ import annotations

from collections import deque
from typing import Deque, Generic, List, Optional, TypeVar

from .address import Address
from .errors import BusyError, InputError, UnavailableError, WeirError

CLOSED = "the client is closed; make calls before close"


class Lane:
    """A connection, as far as its pool looks at it."""

    in_flight = 0  # calls that use it

    @property
    def usable(self) -> bool:
        """Reports whether further calls can be sent."""
        raise NotImplementedError

    def fail(self, error: WeirError) -> None:
        """Ends the connection and all of its calls."""
        raise NotImplementedError


L = TypeVar("L", bound=Lane)


class Waiter(Generic[L]):
    """A call that waits for a connection."""

    @property
    def gone(self) -> bool:
        """Reports whether it waits no longer."""
        raise NotImplementedError

    def give(self, lane: Optional[L]) -> None:
        """Ends the wait with a connection, or with None: look for one again."""
        raise NotImplementedError


class Lanes(Generic[L]):
    """The connections of a pool, and its calls. A pool of threads holds its lock meanwhile."""

    def __init__(self, address: Address, max_pending: int) -> None:
        self._address = address
        self._most, self._shared = address.lanes
        self._max_pending = max_pending
        self.open: List[L] = []
        self.connecting = 0
        self.pending = 0  # calls in flight, and calls that wait for a connection
        self.waiters: Deque[Waiter[L]] = deque()
        self.closed = False

    def enter(self) -> None:
        """Counts a call, unless there are too many. leave is called at its end."""
        if self.closed:
            raise InputError(CLOSED)
        if self.pending >= self._max_pending:
            raise BusyError(
                f"{self.pending} calls wait for weir at {self._address.place}; that is max_pending"
            )
        self.pending += 1

    def leave(self) -> None:
        self.pending -= 1

    def take(self) -> Optional[L]:
        """Returns a connection with room for a call, which uses it now. Those that have ended are
        dropped."""
        self.open = [lane for lane in self.open if lane.usable]
        for lane in self.open:
            if self._shared or lane.in_flight == 0:
                lane.in_flight += 1
                return lane
        return None

    def may_connect(self) -> bool:
        """Reports whether there is room for a further connection."""
        return len(self.open) + self.connecting < self._most

    def connected(self, lane: L) -> None:
        """Adds a connection, which a call uses."""
        lane.in_flight = 1
        self.open.append(lane)
        if self.closed:
            lane.fail(BusyError(CLOSED))

    def release(self, lane: L) -> bool:
        """Ends the use by a call, and reports whether the connection has ended."""
        lane.in_flight -= 1
        ended = lane.in_flight == 0 and not lane.usable
        self.wake()
        return ended

    def wake(self) -> None:
        """Gives connections with room to the calls that wait, in their order."""
        while self.waiters:
            if self.waiters[0].gone:
                self.waiters.popleft()
                continue
            lane = self.take()
            if lane is None and not self.may_connect():
                return
            self.waiters.popleft().give(lane)
            if lane is None:
                return  # this call connects

    def close(self) -> List[L]:
        """Rejects further calls, and returns the connections, which the pool ends."""
        self.closed = True
        lanes, self.open = self.open, []
        return lanes

    def none_free(self) -> UnavailableError:
        """Returns the error of a call that waited for a connection in vain. Calls that share one
        wait only until it is open."""
        if self._shared:
            return UnavailableError(
                f"weir at {self._address.place} is not reached: the connection timed out"
            )
        return UnavailableError(
            f"no connection to weir at {self._address.place} was free in time; redis:// needs only "
            "one"
        )
