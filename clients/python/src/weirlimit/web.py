"""What the middleware of WSGI and of ASGI share: the client's address, and the answers."""

from __future__ import annotations

import ipaddress
import json
import logging
import math
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from .decision import NEVER, Decision
from .errors import InputError
from .inputs import Key, check_key, check_number

logger = logging.getLogger("weirlimit")

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
UNNAMED = "limit"  # a policy without a name of the program
Fields = List[Tuple[str, str]]


class Addresses:
    """Finds the address of a client behind so many proxies of one's own."""

    def __init__(self, proxies: int) -> None:
        self._proxies = check_number(proxies, "proxies", 0, 100)
        self._warned: Set[str] = set()

    def find(self, peer: str, forwarded: Sequence[str], rewritten: bool) -> str:
        """Returns the address under which a client counts.

        :param forwarded: the values of X-Forwarded-For.
        :param rewritten: another middleware has put the client's address into peer.
        """
        hops = [hop.strip() for value in forwarded for hop in value.split(",")]
        if self._proxies == 0:
            if hops and not rewritten:
                self._warn(
                    "a request has X-Forwarded-For, but proxies is 0, so all clients of the proxy "
                    "count as one; behind a proxy pass proxies=1"
                )
            return unit_of(peer)
        if len(hops) >= self._proxies:
            return unit_of(hops[-self._proxies])
        self._warn(
            f"a request has {len(hops)} addresses in X-Forwarded-For, but proxies is "
            f"{self._proxies}, so it counts by the address of its connection; pass the number of "
            "proxies, each of which must add the address that it sees"
        )
        return unit_of(peer)

    def _warn(self, sentence: str) -> None:
        """Logs a sentence once."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            logger.warning("%s", sentence)


def unit_of(text: str) -> str:
    """Returns the unit of an address that has one history: an IPv4 address, also if it is mapped,
    or the /64 of an IPv6 address, because a client has all addresses there."""
    host = text.strip()
    if host.startswith("["):  # with a port
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        raise InputError(
            f"the client has no address but {text!r}; pass a key function, or proxies"
        ) from None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


class Answer:
    """An answer in place of that of the application."""

    def __init__(self, status: int, title: str, members: Dict[str, Any], fields: Fields) -> None:
        self.status = status
        self.title = title
        problem = {"type": "about:blank", "title": title, "status": status, **members}
        self.body = json.dumps(problem).encode()
        self.fields = [
            *fields,
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),
        ]


def bad_key(key: Key) -> Optional[Answer]:
    """Returns the answer to a request whose key is no key, such as one without a value."""
    try:
        check_key(key)
    except InputError as err:
        return Answer(400, "Bad Request", {"detail": str(err)}, [])
    return None


def refusal(decision: Decision, name: str) -> Optional[Answer]:
    """Returns the answer to a request that is denied, or None."""
    if decision.allowed:
        return None
    if decision.error is not None:
        detail = "the rate limiter does not answer, and when_down denies; try again later"
        return Answer(503, "Service Unavailable", {"detail": detail}, [("Retry-After", "1")])
    members: Dict[str, Any] = {"type": QUOTA_EXCEEDED, "violated-policies": [name or UNNAMED]}
    fields = limit_fields(decision, name)
    if decision.retry_after == NEVER:
        members["detail"] = "the request is more than the limit ever allows"
    else:
        wait = math.ceil(decision.retry_after)
        members["detail"] = f"the limit is reached; there is room in {wait}s"
        members["retry_after_ms"] = round(decision.retry_after * 1000)
        fields.append(("Retry-After", str(wait)))
    return Answer(429, "Quota exceeded", members, fields)


def limit_fields(decision: Decision, name: str) -> Fields:
    """Returns the fields that describe a decision of weir."""
    if decision.error is not None:
        return []
    value = f'"{name or UNNAMED}";r={max(decision.remaining, 0)}'
    if not decision.allowed and decision.retry_after != NEVER:
        value += f";t={math.ceil(decision.retry_after)}"
    return [("RateLimit", value)]
