"""The blocking client. It is safe for threads; a child process after a fork connects anew."""

from __future__ import annotations

from typing import Optional, Sequence, Union

from . import threads
from .address import Address
from .base import LimiterBase, ReservationBase, WeirBase
from .calls import Target
from .core import ReservationCore
from .decision import NEVER, Block, Decision, Reset, Settlement
from .inputs import NO_KEY, Key


class Weir(WeirBase[threads.Pool, "Limiter", "Reservation"]):
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

    def _new_pool(self, address: Address, max_pending: int) -> threads.Pool:
        return threads.Pool(address, max_pending)

    def _new_limiter(self, target: Target) -> "Limiter":
        return Limiter(self._core, self._pool, target)

    def _new_reservation(self, decision: Decision, core: ReservationCore) -> "Reservation":
        return Reservation(self._pool, decision, core)

    def ping(self) -> None:
        """Raises a WeirError unless weir answers and accepts the token."""
        threads.run(self._core.ping(), self._pool)

    def close(self) -> None:
        """Ends the connections, and the calls in flight."""
        self._pool.close()

    def __enter__(self) -> "Weir":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Limiter(LimiterBase[threads.Pool]):
    """The calls about the keys of one policy, such as ``{"user": "ann"}``.

    ``id`` is an idempotency key of 1 to 128 bytes: a call that is made again with it, also by
    another process, gets the first answer and is charged once. Without it each call has its own.
    """

    def take(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Takes n units if they fit now, all or none."""
        return threads.run(self._core.take(key, n, id), self._pool)

    def peek(self, key: Key = NO_KEY, n: int = 1) -> Decision:
        """Returns the decision that take would make now, and changes nothing."""
        return threads.run(self._core.peek(key, n), self._pool)

    def wait(
        self, key: Key = NO_KEY, n: int = 1, *, max_wait: float = NEVER, id: Optional[str] = None
    ) -> Decision:
        """Takes n units at the first instant at which they fit, and returns at that instant.

        It is denied immediately if that is more than max_wait seconds away. The most, and the
        default, is max-wait of the policy, by default its longest window. Callers of a key are
        served in their order. One call is sent, and none while it sleeps. If the sleep is
        interrupted, the units are given back.
        """
        return threads.run(self._core.wait(key, n, max_wait, id), self._pool)

    def record(self, key: Key = NO_KEY, n: int = 1, *, id: Optional[str] = None) -> Decision:
        """Adds n units that were used already, without a decision."""
        return threads.run(self._core.record(key, n, id), self._pool)

    def count(self, key: Key, last: float, *, limit: Optional[str] = None) -> int:
        """Returns the units that a rolling limit recorded in the last seconds."""
        return threads.run(self._core.count(key, last, limit), self._pool)

    def refund(
        self, key: Key, of: Union[Decision, int], n: int = 1, *, id: Optional[str] = None
    ) -> int:
        """Gives units back, and returns their number. of is the grant, or its at_us."""
        return threads.run(self._core.refund(key, of, n, id), self._pool)

    def reset(self, key: Key = NO_KEY, *, limits: Sequence[str] = ()) -> Reset:
        """Forgets the histories of a key, in the limits of these names. For operators."""
        return threads.run(self._core.reset(key, limits), self._pool)

    def block(self, key: Key, duration: float, *, limits: Sequence[str] = ()) -> Block:
        """Denies a key for so many seconds; 0 ends its blocks. For operators."""
        return threads.run(self._core.block(key, duration, limits), self._pool)

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
        :param max_wait: waits for so many seconds at most, as wait does; NEVER = as long as the
            policy allows.
        """
        decision, opened = threads.run(self._core.reserve(key, n, ttl, max_wait, id), self._pool)
        return Reservation(self._pool, decision, opened)


class Reservation(ReservationBase[threads.Pool]):
    """Units that are settled once. At the end of a with statement all of them are, if they were
    not settled before."""

    def settle(self, actual: int) -> Settlement:
        """Settles it with the units that were used. The same number again changes nothing."""
        return threads.run(self._core.settle(actual), self._pool)

    def done(self) -> Settlement:
        """Settles it with all units, and ends its hold."""
        return threads.run(self._core.settle(None), self._pool)

    def cancel(self) -> Settlement:
        """Gives all units back."""
        return threads.run(self._core.settle(0), self._pool)

    def extend(self) -> None:
        """Renews its life, and its hold."""
        threads.run(self._core.extend(), self._pool)

    def add(self, n: int) -> Decision:
        """Takes n units more, all or none. After a denial it stays open."""
        return threads.run(self._core.add(n), self._pool)

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        threads.run(self._core.leave(error), self._pool)
