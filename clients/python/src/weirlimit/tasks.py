"""The connections of the client of asyncio. They belong to one event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Deque, Optional, Set, Tuple, TypeVar

from . import lanes
from .address import Address
from .calls import Call
from .core import Arrived, Outcome, Pause, Send, Steps
from .errors import BusyError, InputError, UnavailableError, WeirError
from .threads import copy_of, lost

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
                break
            step = steps.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    # What is left gives units back. A task of its own makes that, because a task that is cancelled
    # may be cancelled again, as in a scope of anyio.
    task = asyncio.ensure_future(finish(step, steps, pool))
    unfinished.add(task)
    task.add_done_callback(unfinished.discard)
    return await asyncio.shield(task)


unfinished: Set["asyncio.Future[Any]"] = set()  # an event loop refers to its tasks weakly


async def finish(step: Any, steps: Steps[T], pool: "Pool") -> T:
    """Makes the steps that are left, to the end."""
    try:
        while True:
            step = steps.send(await make(step, pool))
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


class Connection(asyncio.Protocol, lanes.Lane):
    """A connection with calls in flight."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._codec = address.codec()
        self._transport: Any = None
        self._pending: Deque["asyncio.Future[Any]"] = deque()
        self._reads = 0
        self.error: Optional[WeirError] = None  # why it has ended

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


class Waiter(lanes.Waiter[Connection]):
    """A task that waits for a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.given: "asyncio.Future[Optional[Connection]]" = loop.create_future()

    @property
    def gone(self) -> bool:
        """Reports whether it has waited for too long, or is cancelled."""
        return self.given.done()

    def give(self, lane: Optional[Connection]) -> None:
        self.given.set_result(lane)

    def expire(self, error: WeirError) -> None:
        """Ends the wait with an error."""
        if not self.gone:
            self.given.set_exception(error)

    def connection(self) -> Optional[Connection]:
        """Returns the connection that it was given, if it was."""
        ended = self.given.done() and not self.given.cancelled()
        return self.given.result() if ended and self.given.exception() is None else None


class Pool:
    """The connections of a client."""

    def __init__(self, address: Address, max_pending: int) -> None:
        self._address = address
        self._max_pending = max_pending
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._reset()

    def _reset(self) -> None:
        self._lanes: lanes.Lanes[Connection] = lanes.Lanes(self._address, self._max_pending)

    async def exchange(self, call: Call, deadline: float) -> Outcome:
        """Sends a call over a connection with room."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop and not self._lanes.closed:
            if self._loop is not None and self._loop.is_running():
                raise InputError(
                    "another event loop, which runs in another thread, uses this client; "
                    "make a client for each loop"
                )
            self._loop = loop  # another asyncio.run: the connections ended with its loop
            self._reset()
        self._lanes.enter()
        try:
            connection = await self._acquire(deadline)
            try:
                return await connection.exchange(call, deadline)
            finally:
                self._release(connection)
        finally:
            self._lanes.leave()

    async def _acquire(self, deadline: float) -> Connection:
        """Returns a connection with room for a call, perhaps a new one."""
        while True:
            connection = self._lanes.take()
            if connection is not None:
                return connection
            if self._lanes.may_connect():
                return await self._connect(deadline)
            connection = await self._wait(deadline)
            if connection is not None:
                return connection

    async def _wait(self, deadline: float) -> Optional[Connection]:
        """Waits for a connection; None = look for one again."""
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop)
        self._lanes.waiters.append(waiter)
        left = deadline - time.monotonic()
        timer = loop.call_later(left, waiter.expire, self._lanes.none_free())
        try:
            return await waiter.given
        except asyncio.CancelledError:
            connection = waiter.connection()
            if connection is not None:  # at the same instant
                self._release(connection)
            else:
                self._lanes.wake()
            raise
        finally:
            timer.cancel()

    async def _connect(self, deadline: float) -> Connection:
        """Opens a connection."""
        self._lanes.connecting += 1
        try:
            left = deadline - time.monotonic()
            _, connection = await asyncio.wait_for(dial(self._address), left)
            self._lanes.connected(connection)
            return connection
        except asyncio.TimeoutError:
            raise UnavailableError(
                f"weir at {self._address.place} is not reached: the connection timed out"
            ) from None
        except OSError as err:
            raise lost(self._address, err) from None
        finally:
            self._lanes.connecting -= 1
            self._lanes.wake()

    def _release(self, connection: Connection) -> None:
        if self._lanes.release(connection):
            connection.fail(UnavailableError("the connection has ended"))

    def close(self) -> None:
        """Ends the connections."""
        for connection in self._lanes.close():
            connection.fail(BusyError(lanes.CLOSED))


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
