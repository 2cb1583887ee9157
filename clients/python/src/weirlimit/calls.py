"""A call in the two forms of its transports: a command of RESP, and a request of HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import quote, urlencode

Pairs = Tuple[Tuple[str, str], ...]


@dataclass(frozen=True)
class Target:
    """The policy of a limiter: one of the server's file by name, or one in the call."""

    name: str = ""  # "" = the server makes a name of the limits
    limits: Tuple[str, ...] = ()  # () = the policy of the server's file

    def __str__(self) -> str:
        return self.name or " and ".join(self.limits)


@dataclass(frozen=True)
class Call:
    """One call, which is encoded again for each try."""

    verb: str  # the last word of the command, in lower case
    command: Tuple[str, ...]  # of RESP
    method: str  # of HTTP
    path: str
    body: Optional[Dict[str, Any]] = None
    options: Dict[str, bool] = field(default_factory=dict)  # which elements the reply has


def about_key(
    verb: str,
    target: Target,
    pairs: Pairs,
    n: int,
    id: Optional[str] = None,
    max_wait_ms: Optional[int] = None,
    ttl_ms: Optional[int] = None,
) -> Call:
    """Returns a check, a peek, a record or a reservation."""
    command = [*command_start(verb, target, pairs), str(n)]
    body = body_start(target, pairs)
    body["n"] = n
    if ttl_ms is not None:
        command += ["TTL", str(ttl_ms)]
        body["ttl_ms"] = ttl_ms
    if max_wait_ms is not None:
        command += ["WAIT", str(max_wait_ms)]
        body["max_wait_ms"] = max_wait_ms
    if id is not None:
        command += ["ID", id]
        body["id"] = id
    command += lines(target)
    options = {"id": id is not None, "wait": max_wait_ms is not None}
    return Call(verb, tuple(command), "POST", "/v1/" + verb, body, options)


def refund(target: Target, pairs: Pairs, at_us: int, n: int, id: Optional[str]) -> Call:
    """Returns the refund of units of the grant of an instant."""
    command = [*command_start("refund", target, pairs), str(at_us), str(n)]
    body = body_start(target, pairs)
    body.update(n=n, granted_at_us=at_us)
    if id is not None:
        command += ["ID", id]
        body["id"] = id
    command += lines(target)
    return Call("refund", tuple(command), "POST", "/v1/refund", body)


def count(target: Target, pairs: Pairs, last_ms: int, limit: Optional[str]) -> Call:
    """Returns a count of the units of the last milliseconds."""
    command = [*command_start("count", target, pairs), str(last_ms)]
    body = body_start(target, pairs)
    body["last_ms"] = last_ms
    if limit is not None:
        command += ["LIMIT", limit]
        body["limit"] = limit
    command += lines(target)
    return Call("count", tuple(command), "POST", "/v1/count", body)


def reset(target: Target, pairs: Pairs, limits: Tuple[str, ...]) -> Call:
    """Returns the reset of a key, in the limits of these names."""
    command = command_start("reset", target, pairs)
    query: List[Tuple[str, str]] = []
    for name, value in pairs:
        query.append(("key." + name if name in RESERVED else name, value))
    for limit in limits:
        command += ["LIMIT", limit]
        query.append(("limit", limit))
    for line in target.limits:
        query.append(("limits", line))
    command += lines(target)
    path = f"/v1/keys/{quote(target.name, safe='')}?{urlencode(query)}"
    return Call("reset", tuple(command), "DELETE", path)


def block(target: Target, pairs: Pairs, for_ms: int, limits: Tuple[str, ...]) -> Call:
    """Returns a block of a key for a time; 0 ends blocks."""
    command = [*command_start("block", target, pairs), str(for_ms)]
    for limit in limits:
        command += ["LIMIT", limit]
    command += lines(target)
    body = body_start(target, pairs)
    body["for_ms"] = for_ms
    if limits:
        body["limit_names"] = list(limits)
    return Call("block", tuple(command), "POST", "/v1/block", body)


RESERVED = ("limit", "limits")  # parameters of a reset's query


def settle(reservation: str, actual: Optional[int]) -> Call:
    """Returns a settlement; None settles all units."""
    command = ["WEIR.SETTLE", reservation]
    body: Dict[str, Any] = {"reservation": reservation}
    if actual is not None:
        command.append(str(actual))
        body["actual"] = actual
    return Call("settle", tuple(command), "POST", "/v1/settle", body)


def extend(reservation: str, n: int, reserved: Optional[int]) -> Call:
    """Returns an extension by n units; reserved is the number before, which makes it safe to
    repeat."""
    command = ["WEIR.EXTEND", reservation]
    body: Dict[str, Any] = {"reservation": reservation}
    if n > 0:
        command.append(str(n))
        body["n"] = n
    if n > 0 and reserved is not None:
        command.append(str(reserved))
        body["reserved"] = reserved
    return Call("extend", tuple(command), "POST", "/v1/extend", body)


def ping() -> Call:
    """Returns a call that changes nothing, and needs the token if there is one."""
    return Call("policies", ("WEIR.POLICIES",), "GET", "/v1/policies")


def command_start(verb: str, target: Target, pairs: Pairs) -> List[str]:
    """Returns the words of a command up to its dimensions."""
    words = ["WEIR." + verb.upper(), target.name]
    words += [name + "=" + value for name, value in pairs]
    return words


def lines(target: Target) -> List[str]:
    """Returns the words of the limits in a call, at its end."""
    return [word for line in target.limits for word in ("LIMITS", line)]


def body_start(target: Target, pairs: Pairs) -> Dict[str, Any]:
    """Returns the members of a body about a key."""
    body: Dict[str, Any] = {"policy": target.name, "key": dict(pairs)}
    if target.limits:
        body["limits"] = list(target.limits)
    return body
