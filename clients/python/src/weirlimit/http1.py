"""HTTP/1.1, without input and output: calls to bytes, and bytes to answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Optional, Tuple

from .calls import Call
from .errors import (
    AuthError,
    ExpiredError,
    InputError,
    ProtocolError,
    SettledError,
    UnavailableError,
    WeirError,
)
from .resp import NO_TOKEN, WRONG_TOKEN, whole, words

MAX_HEAD = 64 << 10  # bytes of the status line and the header fields
MAX_BODY = 4 << 20


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    fields: Dict[str, str]  # by names in lower case
    body: bytes


class Parser:
    """Makes answers of the bytes that arrive."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> List[Answer]:
        """Returns the answers that are complete now. It raises ProtocolError for other bytes."""
        self._data += data
        answers: List[Answer] = []
        while True:
            parsed = parse(self._data)
            if parsed is None:
                return answers
            answer, size = parsed
            self._data = self._data[size:]
            if answer.status >= 200:  # others precede an answer
                answers.append(answer)


def parse(data: bytes) -> Optional[Tuple[Answer, int]]:
    """Returns the answer at the beginning of data, and its size; None if bytes lack."""
    if data and not data.startswith(b"HTTP/1."[: len(data)]):
        raise ProtocolError(repr(data[:40].decode(errors="replace")))
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD:
            raise ProtocolError("a header without an end")
        return None
    lines = data[:end].decode("latin-1").split("\r\n")
    status = re.match(r"HTTP/1\.\d (\d{3})( |$)", lines[0])
    if status is None:
        raise ProtocolError(repr(lines[0][:40]))
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    parsed = parse_body(int(status[1]), fields, data, end + 4)
    if parsed is None:
        return None
    body, size = parsed
    return Answer(int(status[1]), fields, body), size


def parse_body(
    status: int, fields: Dict[str, str], data: bytes, at: int
) -> Optional[Tuple[bytes, int]]:
    """Returns the body that begins at an offset, and the offset behind it."""
    if status < 200 or status in (204, 304):
        return b"", at
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return parse_chunks(data, at)
    length = fields.get("content-length", "")
    if length == "" and status >= 400:
        return data[at:], len(data)  # of another server; the end of the connection ends it
    if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
        raise ProtocolError(f"a body of {length or 'unknown'} bytes")
    size = int(length)
    if len(data) < at + size:
        return None
    return data[at : at + size], at + size


def parse_chunks(data: bytes, at: int) -> Optional[Tuple[bytes, int]]:
    """Returns a body in chunks."""
    body = b""
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        try:
            size = int(data[at:end].split(b";")[0], 16)
        except ValueError:
            raise ProtocolError("a chunk without a length") from None
        if size < 0 or size + len(body) > MAX_BODY:
            raise ProtocolError(f"a body of more than {MAX_BODY} bytes")
        at = end + 2
        if len(data) < at + size + 2:
            return None
        if size == 0:  # weir sends no trailer
            return body, at + 2
        body += data[at : at + size]
        at += size + 2


class Codec:
    """The answers of one connection, in the order of its calls."""

    def __init__(self, token: Optional[str], place: str, host: str) -> None:
        self.closing = False  # the server ends the connection after its last answer
        self._place = place
        self._has_token = token is not None
        self._parser = Parser()
        self._fields = f"Host: {host}\r\n"
        if token is not None:
            self._fields += f"Authorization: Bearer {token}\r\n"

    def greeting(self) -> bytes:
        """Returns the bytes before the first call."""
        return b""

    def encode(self, call: Call) -> bytes:
        """Returns the bytes of a call."""
        head = f"{call.method} {call.path} HTTP/1.1\r\n{self._fields}"
        if call.body is None:
            return (head + "\r\n").encode("latin-1")
        body = json.dumps(call.body, ensure_ascii=False, separators=(",", ":")).encode()
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    def feed(self, data: bytes) -> List[Answer]:
        """Returns the answers that are complete now. It raises WeirError if there can be none."""
        try:
            answers = self._parser.feed(data)
        except ProtocolError as err:
            raise no_answer(self._place, str(err)) from None
        for answer in answers:
            sized = answer.fields.keys() & {"content-length", "transfer-encoding"}
            endless = answer.status >= 400 and not sized
            if endless or answer.fields.get("connection", "").lower() == "close":
                self.closing = True
        return answers

    def read(self, call: Call, answer: Answer) -> Dict[str, Any]:
        """Returns the members of an answer. It raises a WeirError."""
        denied = answer.status == 429 and call.verb == "extend"
        try:
            members = json.loads(answer.body)
            if answer.status == 200 or denied:
                return read_members(call, members)
            detail = members["detail"]
        except (TypeError, ValueError, KeyError, RecursionError):
            raise self.other_server(call, answer) from None
        if not isinstance(detail, str):
            raise self.other_server(call, answer)
        raise self.error(call, answer, detail)

    def error(self, call: Call, answer: Answer, detail: str) -> WeirError:
        """Returns the error of a problem document."""
        status = answer.status
        if status == 400 or (status == 404 and "no policy" in detail):
            return InputError(detail)
        if status >= 500:
            return UnavailableError(f"weir at {self._place} made no decision: {detail}")
        if status == 401:
            return AuthError(WRONG_TOKEN if self._has_token else NO_TOKEN)
        if status == 403:
            return AuthError(detail)
        if status == 409:
            return SettledError(detail)
        if status == 410:
            return ExpiredError(detail)
        return self.other_server(call, answer)

    def other_server(self, call: Call, answer: Answer) -> WeirError:
        """Returns the error of an answer that weir of this version does not send."""
        status, where = answer.status, f"{self._place} to {call.path.partition('?')[0]}"
        if status >= 502:  # of a proxy
            return UnavailableError(f"{self._place} has no weir behind it: status {status}")
        if b"HTTPS server" in answer.body:
            return ProtocolError(f"{self._place} uses TLS; write https:// in the url")
        return ProtocolError(
            f"status {status} and {answer.body[:60].decode(errors='replace')!r} of {where} is no "
            "answer of weir, or of another version; use the address of --listen, and weirlimit and "
            "weir of the same version"
        )


def no_answer(place: str, got: str) -> ProtocolError:
    """Returns the error of bytes that are no answer of HTTP."""
    return ProtocolError(
        f"{got} of {place} is no answer of weir in HTTP; use the address of --listen, or "
        f"redis://{place} for that of --resp-listen"
    )


def read_decision(members: Dict[str, Any]) -> Dict[str, Any]:
    """Reads the answer to a check, a peek or a reservation."""
    for name in ("allowed", "granted", "remaining", "retry_after_ms", "reset_after_ms"):
        whole(members[name])  # another one is an answer of another version
    words(members["limit"])
    members["at_us"] = micros(members["at"])
    return with_ends(members)


def read_reserved(members: Dict[str, Any]) -> Dict[str, Any]:
    members.setdefault("reservation", "")
    members.setdefault("expires_at_us", 0)
    return read_decision(members)


def read_extended(members: Dict[str, Any]) -> Dict[str, Any]:
    """Reads the answer to an extension: a reservation, or a decision that denies it."""
    if "allowed" in members:
        return read_decision(members)
    units = members["reserved"]
    granted = {"allowed": True, "granted": 0, "remaining": 0, "limit": "", "at_us": 0}
    granted.update(retry_after_ms=0, reset_after_ms=0, reserved=units)
    return with_ends({**members, **granted})


def with_ends(members: Dict[str, Any]) -> Dict[str, Any]:
    """Adds the ends of a reservation and its hold in microseconds since 1970."""
    for name in ("expires_at", "held_until"):
        if name in members:
            members[name + "_us"] = micros(members[name])
    if "start_at" in members:
        members["start_us"] = micros(members["start_at"])
    return members


def read_block(members: Dict[str, Any]) -> Dict[str, Any]:
    until = members.get("blocked_until")
    return {"limits": members["limits"], "until_us": micros(until) if until else 0}


def read_policies(members: Dict[str, Any]) -> Dict[str, Any]:
    return {"policies": [policy["name"] for policy in members["policies"]]}


READERS = {
    "check": read_decision,
    "peek": read_decision,
    "record": read_decision,
    "reserve": read_reserved,
    "extend": read_extended,
    "block": read_block,
    "policies": read_policies,
}

# The members of the other answers.
NAMES = {
    "count": ("count",),
    "settle": ("reserved", "actual", "refunded", "recorded"),
    "refund": ("refunded",),
    "reset": ("reset", "kept"),
}


def read_members(call: Call, members: Dict[str, Any]) -> Dict[str, Any]:
    """Reads an answer. Later versions of weir may add members."""
    if call.verb in READERS:
        return READERS[call.verb](members)
    return {name: members[name] for name in NAMES[call.verb]}


def micros(instant: str) -> int:
    """Returns an instant of RFC 3339 in UTC as microseconds since 1970."""
    parts = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z", instant)
    if parts is None:
        raise ValueError(instant)
    whole = datetime.fromisoformat(parts[1]).replace(tzinfo=timezone.utc)
    since = (whole - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    return since + int((parts[2] or "").ljust(6, "0"))
