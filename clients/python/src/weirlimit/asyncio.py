"""The client of asyncio: the names and arguments of the blocking one, with await."""

from __future__ import annotations

from typing import Any, Generator, Optional, Sequence, Tuple, Union

from . import tasks
from .address import Address
from .base import LimiterBase, ReservationBase, WeirBase
from .calls import Target
from .core import ReservationCore, Steps
from .decision import NEVER, Block, Decision, Reset, Settlement
from .inputs import NO_KEY, Key


class Weir(WeirBase[tasks.Pool, "Limiter", "Reservation"]):
    """A client of one ``weir serve``, for asyncio. Make one for a program and share it.

    The arguments are those of :class:`weirlimit.Weir`.
    """

    def _new_pool(self, address: Address, max_pending: int) -> tasks.Pool:
        return tasks.Pool(address, max_pending)

    def _new_limiter(self, target: Target) -> "Limiter":
        return Limiter(self._core, self._pool, target)

    def _new_reservation(self, decision: Decision, core: ReservationCore) -> "Reservation":
        return Reservation(self._pool, decision, core)

    async def ping(self) -> None:
        """Raises a WeirError unless weir answers and accepts the token."""
        await tasks.run(self._core.ping(), self._pool)

    async def close(self) -> None:
        """Ends the connections, and the calls in flight."""
        self._pool.close()

    async def __aenter__(self) -> "Weir":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Limiter(LimiterBase[tasks.Pool]):
    """The calls about the keys of one policy, such as ``{"user": "ann"}``.

    ``id`` is an idempotency key of 1 to 128 bytes: a call that is made again with it, also by
    another process, gets the first answer and is charged once. Without it each call has its own.
    """

    async def take(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Takes n units if they fit now, all or none."""
        return await tasks.run(self._core.take(key, n, id), self._pool)

    async def peek(self, key: Key = NO_KEY, n: int = 1) -> Decision:
        """Returns the decision that take would make now, and changes nothing."""
        return await tasks.run(self._core.peek(key, n), self._pool)

    async def wait(
        self, key: Key = NO_KEY, n: int = 1, *, max_wait: float = NEVER, id: Optional[str] = None
    ) -> Decision:
        """Takes n units at the first instant at which they fit, and returns at that instant.

        It is denied immediately if that is more than max_wait seconds away. The most, and the
        default, is max-wait of the policy, by default its longest window. Callers of a key are
        served in their order. One call is sent, and none while it sleeps. If the sleep is
        interrupted or cancelled, the units are given back.
        """
        return await tasks.run(self._core.wait(key, n, max_wait, id), self._pool)

    async def record(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Adds n units that were used already, without a decision."""
        return await tasks.run(self._core.record(key, n, id), self._pool)

    async def count(self, key: Key, last: float, *, limit: Optional[str] = None) -> int:
        """Returns the units that a rolling limit recorded in the last seconds."""
        return await tasks.run(self._core.count(key, last, limit), self._pool)

    async def refund(
        self, key: Key, of: Union[Decision, int], n: int = 1, *, id: Optional[str] = None
    ) -> int:
        """Gives units back, and returns their number. of is the grant, or its at_us."""
        return await tasks.run(self._core.refund(key, of, n, id), self._pool)

    async def reset(self, key: Key = NO_KEY, *, limits: Sequence[str] = ()) -> Reset:
        """Forgets the histories of a key, in the limits of these names. For operators."""
        return await tasks.run(self._core.reset(key, limits), self._pool)

    async def block(self, key: Key, duration: float, *, limits: Sequence[str] = ()) -> Block:
        """Denies a key for so many seconds; 0 ends its blocks. For operators."""
        return await tasks.run(self._core.block(key, duration, limits), self._pool)

    def reserve(
        self,
        key: Key = NO_KEY,
        n: int = 1,
        *,
        ttl: Optional[float] = None,
        max_wait: Optional[float] = None,
        id: Optional[str] = None,
    ) -> "Reserving":
        """Takes n units that are settled later with those that were used, here or with await::

            async with limiter.reserve({"tenant": "acme"}, 600) as answer:
                if answer.allowed:
                    await answer.settle(tokens())

        :param ttl: seconds until it expires; default and most: the longest window of the policy.
        :param max_wait: waits for so many seconds at most, as wait does; NEVER = as long as the
            policy allows.
        """
        return Reserving(self._pool, self._core.reserve(key, n, ttl, max_wait, id))


class Reserving:
    """A reservation that is being made: ``await`` it, or use it in ``async with``."""

    def __init__(self, pool: tasks.Pool, steps: Steps[Tuple[Decision, ReservationCore]]) -> None:
        self._pool = pool
        self._steps = steps
        self._made: Optional[Reservation] = None

    async def _make(self) -> "Reservation":
        decision, opened = await tasks.run(self._steps, self._pool)
        return Reservation(self._pool, decision, opened)

    def __bool__(self) -> bool:
        raise TypeError("await the reservation before its answer is read")

    def __await__(self) -> Generator[Any, None, "Reservation"]:
        return self._make().__await__()

    async def __aenter__(self) -> "Reservation":
        self._made = await self._make()
        return self._made

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        assert self._made is not None
        await self._made.__aexit__(kind, error, trace)


class Reservation(ReservationBase[tasks.Pool]):
    """Units that are settled once. At the end of async with all of them are, if they were not
    settled before."""

    async def settle(self, actual: int) -> Settlement:
        """Settles it with the units that were used. The same number again changes nothing."""
        return await tasks.run(self._core.settle(actual), self._pool)

    async def done(self) -> Settlement:
        """Settles it with all units, and ends its hold."""
        return await tasks.run(self._core.settle(None), self._pool)

    async def cancel(self) -> Settlement:
        """Gives all units back."""
        return await tasks.run(self._core.settle(0), self._pool)

    async def extend(self) -> None:
        """Renews its life, and its hold."""
        await tasks.run(self._core.extend(), self._pool)

    async def add(self, n: int) -> Decision:
        """Takes n units more, all or none. After a denial it stays open."""
        return await tasks.run(self._core.add(n), self._pool)

    async def __aenter__(self) -> "Reservation":
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        await tasks.run(self._core.leave(error), self._pool)
