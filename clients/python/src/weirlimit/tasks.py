"""The connections of the client of asyncio. They belong to one event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Deque, List, Optional, Tuple, TypeVar

from .address import Address
from .calls import Call
from .core import Arrived, Outcome, Pause, Send, Steps
from .errors import BusyError, InputError, UnavailableError, WeirError
from .threads import CLOSED, copy_of, lost, none_free, too_many

T = TypeVar("T")


async def run(steps: Steps[T], pool: "Pool") -> T:
    """Makes the steps of a call."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await make(step, pool)
            except BaseException as err:  # such as the cancellation of the task
                step = steps.throw(err)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def make(step: Any, pool: "Pool") -> Outcome:
    """Makes one step."""
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
        return None
    assert isinstance(step, Send)
    try:
        return await pool.exchange(step.call, step.deadline)
    except WeirError as err:
        return err


class Connection(asyncio.Protocol):
    """A connection with calls in flight."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._codec = address.codec()
        self._transport: Any = None
        self._pending: Deque["asyncio.Future[Any]"] = deque()
        self._reads = 0
        self.error: Optional[WeirError] = None  # why it has ended
        self.in_flight = 0

    @property
    def usable(self) -> bool:
        """Reports whether further calls can be sent."""
        ended = self.error is not None or self._transport.is_closing()
        return not ended and not self._codec.closing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        greeting = self._codec.greeting()
        if greeting:
            self._transport.write(greeting)

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        try:
            answers = self._codec.feed(data)
        except WeirError as err:
            self.fail(err)
            return
        for answer in answers:
            if not self._pending:
                self.fail(UnavailableError(f"weir at {self._address.place} sent too many answers"))
                return
            future = self._pending.popleft()
            if not future.done():
                future.set_result(answer)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        if isinstance(exc, OSError):
            self.fail(lost(self._address, exc))
        else:
            self.fail(UnavailableError(f"weir at {self._address.place} closed the connection"))

    def fail(self, error: WeirError) -> None:
        """Ends the connection and all of its calls."""
        if self.error is not None:
            return
        self.error = error
        for future in self._pending:
            if not future.done():
                future.set_exception(copy_of(error))
        self._pending.clear()
        self._transport.abort()

    async def exchange(self, call: Call, deadline: float) -> Outcome:
        """Sends a call and returns its answer. It raises a WeirError if there is none."""
        if self.error is not None:
            raise copy_of(self.error)
        if self._transport.is_closing():  # connection_lost follows
            raise UnavailableError(f"weir at {self._address.place} closed the connection")
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[Any]" = loop.create_future()
        self._pending.append(future)
        self._transport.write(self._codec.encode(call))
        left = deadline - time.monotonic()
        timer = loop.call_later(left, self._expire, future, self._reads)
        try:
            return Arrived(self._codec.read, await future)
        finally:
            timer.cancel()

    def _expire(self, future: "asyncio.Future[Any]", seen: int) -> None:
        """Ends the wait for an answer. If nothing has arrived meanwhile, the connection is dead."""
        if future.done():
            return
        error = UnavailableError(f"weir at {self._address.place} did not answer in time")
        future.set_exception(error)
        if seen == self._reads:
            self.fail(copy_of(error))


class Pool:
    """The connections of a client."""

    def __init__(self, address: Address, max_pending: int) -> None:
        self._address = address
        self._most, self._shared = address.lanes
        self._max_pending = max_pending
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._connections: List[Connection] = []
        self._connecting = 0
        self._pending = 0  # calls in flight, and calls that wait for a connection
        self._waiters: Deque["asyncio.Future[Optional[Connection]]"] = deque()

    async def exchange(self, call: Call, deadline: float) -> Outcome:
        """Sends a call over a connection with room."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # another asyncio.run: the connections ended with its loop
            self._loop = loop
            self._reset()
        if self._closed:
            raise InputError(CLOSED)
        if self._pending >= self._max_pending:
            raise BusyError(too_many(self._address, self._pending))
        self._pending += 1
        try:
            connection = await self._acquire(deadline)
            try:
                return await connection.exchange(call, deadline)
            finally:
                self._release(connection)
        finally:
            self._pending -= 1

    async def _acquire(self, deadline: float) -> Connection:
        """Returns a connection with room for a call, perhaps a new one."""
        while True:
            connection = self._find()
            if connection is not None:
                connection.in_flight += 1
                return connection
            if len(self._connections) + self._connecting < self._most:
                return await self._connect(deadline)
            connection = await self._wait(deadline)
            if connection is not None:
                return connection

    def _find(self) -> Optional[Connection]:
        """Returns an open connection with room, and drops those that have ended."""
        self._connections = [each for each in self._connections if each.usable]
        for connection in self._connections:
            if self._shared or connection.in_flight == 0:
                return connection
        return None

    async def _wait(self, deadline: float) -> Optional[Connection]:
        """Waits for a connection; None = look for one again."""
        assert self._loop is not None
        waiter: "asyncio.Future[Optional[Connection]]" = self._loop.create_future()
        self._waiters.append(waiter)
        timer = self._loop.call_later(deadline - time.monotonic(), self._expire, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            given = waiter.result() if waiter.done() and not waiter.cancelled() else None
            if given is not None:  # at the same instant
                self._release(given)
            else:
                self._wake()
            raise
        finally:
            timer.cancel()

    def _expire(self, waiter: "asyncio.Future[Optional[Connection]]") -> None:
        if not waiter.done():
            waiter.set_exception(UnavailableError(none_free(self._address)))

    def _wake(self) -> None:
        """Gives connections with room to those that wait, in their order."""
        while self._waiters:
            if self._waiters[0].done():  # it has waited for too long, or is cancelled
                self._waiters.popleft()
                continue
            connection = self._find()
            may_connect = len(self._connections) + self._connecting < self._most
            if connection is None and not may_connect:
                return
            if connection is not None:
                connection.in_flight += 1
            self._waiters.popleft().set_result(connection)
            if connection is None:
                return  # this one connects

    async def _connect(self, deadline: float) -> Connection:
        """Opens a connection."""
        self._connecting += 1
        try:
            left = deadline - time.monotonic()
            _, connection = await asyncio.wait_for(dial(self._address), left)
            connection.in_flight = 1
            self._connections.append(connection)
            if self._closed:
                connection.fail(BusyError(CLOSED))
            return connection
        except asyncio.TimeoutError:
            raise UnavailableError(
                f"weir at {self._address.place} is not reached: the connection timed out"
            ) from None
        except OSError as err:
            raise lost(self._address, err) from None
        finally:
            self._connecting -= 1
            self._wake()

    def _release(self, connection: Connection) -> None:
        connection.in_flight -= 1
        if not connection.usable and connection.in_flight == 0:
            connection.fail(UnavailableError("the connection has ended"))
        self._wake()

    def close(self) -> None:
        """Ends the connections."""
        self._closed = True
        for connection in self._connections:
            connection.fail(BusyError(CLOSED))
        self._connections = []


async def dial(address: Address) -> Tuple[asyncio.BaseTransport, Connection]:
    """Connects to weir."""
    loop = asyncio.get_running_loop()
    connection = Connection(address)
    if address.path is not None:
        return await loop.create_unix_connection(lambda: connection, address.path)
    name = address.host if address.tls is not None else None
    return await loop.create_connection(
        lambda: connection, address.host, address.port, ssl=address.tls, server_hostname=name
    )
