"""RESP, without input and output: commands to bytes, and bytes to replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

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

MAX_LINE = 64 << 10  # bytes; the longest line is that of an error
MAX_BULK = 1 << 20  # bytes of a string
MAX_ELEMENTS = 100_000  # of an array
MAX_DEPTH = 4  # of arrays in arrays; weir sends two


@dataclass(frozen=True)
class ErrorReply:
    """An error of the server: its first word, and the rest."""

    code: str
    text: str


def encode(words: Iterable[str]) -> bytes:
    """Returns the bytes of a command."""
    parts = [word.encode() for word in words]
    out = [b"*%d\r\n" % len(parts)]
    for part in parts:
        out.append(b"$%d\r\n%b\r\n" % (len(part), part))
    return b"".join(out)


class Parser:
    """Makes replies of the bytes that arrive: int, str, None, list or ErrorReply."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> List[Any]:
        """Returns the replies that are complete now. It raises ProtocolError for other bytes."""
        self._data += data
        replies: List[Any] = []
        at = 0
        while True:
            parsed = parse(self._data, at)
            if parsed is None:
                break
            reply, at = parsed
            replies.append(reply)
        self._data = self._data[at:]
        return replies


def parse(data: bytes, at: int, depth: int = 0) -> Optional[Tuple[Any, int]]:
    """Returns the reply that begins at an offset, and the offset behind it; None if bytes lack."""
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > MAX_LINE or (len(data) > at and data[at] not in KINDS):
            raise ProtocolError(described(data[at:]))
        return None
    kind, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b":":
        return number(line), at
    if kind == b"+":
        return text(line), at
    if kind == b"-":
        code, _, rest = text(line).partition(" ")
        return ErrorReply(code, rest), at
    if kind == b"$":
        return parse_bulk(data, at, number(line))
    if kind == b"*":
        return parse_array(data, at, number(line), depth)
    raise ProtocolError(described(kind + line))


KINDS = b":+-$*"


def parse_bulk(data: bytes, at: int, size: int) -> Optional[Tuple[Any, int]]:
    """Returns a string of so many bytes; −1 stands for None."""
    if size == -1:
        return None, at
    if not 0 <= size <= MAX_BULK:
        raise ProtocolError(f"a string of {size} bytes")
    if len(data) < at + size + 2:
        return None
    return text(data[at : at + size]), at + size + 2


def parse_array(data: bytes, at: int, count: int, depth: int) -> Optional[Tuple[Any, int]]:
    """Returns an array of so many replies; −1 stands for None."""
    if count == -1:
        return None, at
    if not 0 <= count <= MAX_ELEMENTS:
        raise ProtocolError(f"an array of {count} elements")
    if depth == MAX_DEPTH:
        raise ProtocolError(f"arrays in arrays, {depth} and more deep")
    elements = []
    for _ in range(count):
        parsed = parse(data, at, depth + 1)
        if parsed is None:
            return None
        element, at = parsed
        elements.append(element)
    return elements, at


def number(line: bytes) -> int:
    try:
        return int(line)
    except ValueError:
        raise ProtocolError(described(line)) from None


def text(data: bytes) -> str:
    return data.decode(errors="replace")


def described(data: bytes) -> str:
    """Returns the first bytes of an answer that is none."""
    return repr(text(data[:40]))


TOKEN_FILE = "pass the text of the file that weir serve --token-file names"
WRONG_TOKEN = "the token is wrong; " + TOKEN_FILE
NO_TOKEN = "weir requires a token; " + TOKEN_FILE


class Codec:
    """The answers of one connection, in the order of its calls."""

    closing = False  # the server does not keep the connection; RESP has no such sign

    def __init__(self, token: Optional[str], place: str) -> None:
        self._token = token
        self._place = place
        self._parser = Parser()
        self._greets = token is not None

    def greeting(self) -> bytes:
        """Returns the bytes before the first call."""
        return encode(("AUTH", self._token)) if self._token is not None else b""

    def encode(self, call: Call) -> bytes:
        """Returns the bytes of a call."""
        return encode(call.command)

    def feed(self, data: bytes) -> List[Any]:
        """Returns the answers that are complete now. It raises WeirError if there can be none."""
        try:
            replies = self._parser.feed(data)
        except ProtocolError as err:
            raise no_answer(self._place, str(err)) from None
        if self._greets and replies:
            self._greets = False
            welcome = replies.pop(0)
            if isinstance(welcome, ErrorReply) and not welcome.text.startswith(NO_TOKEN_NEEDED):
                raise self.error(welcome, greeting=True)
        return replies

    def read(self, call: Call, reply: Any) -> Dict[str, Any]:
        """Returns the members of an answer, with the names of HTTP. It raises a WeirError."""
        if isinstance(reply, ErrorReply):
            raise self.error(reply)
        try:
            return READERS.get(call.verb, read_elements)(call, reply)
        except (TypeError, ValueError, IndexError):
            raise ProtocolError(
                f"the answer of {self._place} to {call.command[0]} is that of another version: "
                f"{reply!r:.80}; use weirlimit and weir of the same version"
            ) from None

    def error(self, reply: ErrorReply, greeting: bool = False) -> WeirError:
        """Returns the error of a reply."""
        whole = f"{reply.code} {reply.text}".strip()
        if reply.code == "UNAVAILABLE" or "max number of clients" in reply.text:
            return UnavailableError(f"weir at {self._place} made no decision: {reply.text}")
        if reply.code == "WRONGPASS":
            return AuthError(WRONG_TOKEN)
        if reply.code == "NOAUTH":
            return AuthError(NO_TOKEN if self._token is None else WRONG_TOKEN)
        if reply.code == "NOPERM" or greeting:
            return AuthError(reply.text)
        if reply.code == "SETTLED":
            return SettledError(reply.text)
        if reply.code == "EXPIRED":
            return ExpiredError(reply.text)
        if reply.text.startswith("unknown command"):
            return self.unknown_command(reply.text)
        if reply.text.startswith("Protocol error"):
            return ProtocolError(f"weir at {self._place}: {whole}")
        return InputError(reply.text)

    def unknown_command(self, text: str) -> WeirError:
        """Returns the error of a server that does not have a command."""
        if "Its commands are" in text:
            return ProtocolError(
                f"weir at {self._place} is of another version, because it does not have a command; "
                "use weirlimit and weir of the same version"
            )
        return ProtocolError(f"{self._place} is a Redis, no weir; use the address of --resp-listen")


def no_answer(place: str, got: str) -> ProtocolError:
    """Returns the error of bytes that are no answer of weir."""
    if "HTTP/" in got:
        return ProtocolError(
            f"{place} answers in HTTP, not RESP; use the address of --resp-listen, or "
            f"http://{place}"
        )
    if got.startswith(ALERT_OF_TLS):
        return ProtocolError(f"{place} uses TLS; write rediss:// in the url")
    return ProtocolError(f"{got} of {place} is no answer of weir; use the address of --resp-listen")


NO_TOKEN_NEEDED = "AUTH: this listener requires no token"  # as over HTTP, such a token is ignored

ALERT_OF_TLS = "'\\x15\\x03"  # of a server that expects TLS, as an error shows it


def read_decision(call: Call, reply: Any) -> Dict[str, Any]:
    """Reads nine elements, and whether it is a replay."""
    return decision_members(call, reply, 9)


def decision_members(call: Call, reply: Any, at: int) -> Dict[str, Any]:
    """Reads the first nine elements, and those of options from an index on."""
    allowed, granted, remaining, retry, reset, limit, at_us, degraded, cached = reply[:9]
    members = {
        "allowed": whole(allowed) == 1,
        "granted": whole(granted),
        "remaining": whole(remaining),
        "retry_after_ms": whole(retry),
        "reset_after_ms": whole(reset),
        "limit": words(limit),
        "at_us": whole(at_us),
        "degraded": whole(degraded) == 1,
        "cached": whole(cached) == 1,
    }
    if call.options.get("id"):
        members["replayed"] = whole(reply[at]) == 1
    return members


def read_start(members: Dict[str, Any], call: Call, reply: Any, at: int) -> Dict[str, Any]:
    """Reads the start of a call that may wait: its instant, and the milliseconds until then."""
    if call.options.get("wait"):
        members["start_us"] = whole(reply[at])
        members["start_after_ms"] = whole(reply[at + 1])
    return members


def read_reserved(call: Call, reply: Any) -> Dict[str, Any]:
    """Reads a decision, the reservation, its end, whether it is a replay, the end of a hold, and
    the start."""
    members = decision_members(call, reply, 11)
    members["reservation"] = words(reply[9])
    members["expires_at_us"] = whole(reply[10])
    following = 11 + call.options["id"]
    holds = len(reply) > following + 2 * call.options["wait"]
    if holds:
        members["held_until_us"] = whole(reply[following])
    return read_start(members, call, reply, following + holds)


def read_extended(call: Call, reply: Any) -> Dict[str, Any]:
    """Reads a decision, the units of the reservation, its end, and the end of a hold."""
    members = decision_members(call, reply, 11)
    members["reserved"] = whole(reply[9])
    members["expires_at_us"] = whole(reply[10])
    if len(reply) > 11:
        members["held_until_us"] = whole(reply[11])
    return members


def whole(value: Any) -> int:
    """Returns a whole number. It raises TypeError for another value."""
    if not isinstance(value, int):
        raise TypeError
    return value


def words(value: Any) -> str:
    """Returns a text. It raises TypeError for another value."""
    if not isinstance(value, str):
        raise TypeError
    return value


def names(value: Any) -> List[str]:
    """Returns a list of texts. It raises TypeError for another value."""
    if not isinstance(value, list):
        raise TypeError
    return [words(each) for each in value]


def read_policies(_: Call, reply: Any) -> Dict[str, Any]:
    return {"policies": [words(policy[0]) for policy in reply]}


# The members of answers that are no decision, in the order of their elements. An answer of one
# member is that element.
ELEMENTS: Dict[str, Dict[str, Callable[[Any], Any]]] = {
    "count": {"count": whole},
    "settle": {"reserved": whole, "actual": whole, "refunded": whole, "recorded": whole},
    "refund": {"refunded": whole},
    "reset": {"reset": names, "kept": names},
    "block": {"limits": names, "until_us": whole},
}


def read_elements(call: Call, reply: Any) -> Dict[str, Any]:
    """Reads the answer to a call that decides nothing. Later versions of weir may append
    elements."""
    members = ELEMENTS[call.verb]
    elements = reply if len(members) > 1 else [reply]
    if not isinstance(elements, list):
        raise TypeError
    return {name: members[name](elements[at]) for at, name in enumerate(members)}


READERS = {
    "check": read_decision,
    "peek": read_decision,
    "record": read_decision,
    "reserve": read_reserved,
    "extend": read_extended,
    "policies": read_policies,
}
