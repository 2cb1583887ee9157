"""Checks the arguments of a call before it is sent. Each error has the next step."""

from __future__ import annotations

import math
from typing import Mapping, Optional, Sequence, Tuple, Union

from .errors import InputError

MAX_UNITS = 2**51 - 1  # of one call, and of a limit
MAX_VALUE_BYTES = 1024  # of a value of a key
MAX_ID_BYTES = 128
MAX_MS = 400 * 86_400_000  # of a time: 400 days in milliseconds
MAX_INSTANT = 2**53 - 1  # microseconds since 1970

Key = Mapping[str, str]
Limits = Union[str, Sequence[str]]
NO_KEY: Key = {}

NAMED_LIMIT = "the name of limits is text, such as login; leave it out for one made of the limits"
NAMED_POLICY = "the name of a policy is text, as in the policy file of weir serve"
NAMED_RESERVATION = "a reservation is named by its id, the text of Reservation.id"


def check_key(key: object) -> Tuple[Tuple[str, str], ...]:
    """Returns the dimensions and values of a key."""
    if not isinstance(key, Mapping):
        raise InputError(
            'a key is a dict with a value for each dimension, such as {"user": "ann"}, '
            f"not {shown(key)}"
        )
    for name, value in key.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of a dimension must be text, not {shown(name)}")
        if "=" in name:
            raise InputError(f"{shown(name)} is no name of a dimension, because it has a =")
        check_value(name, value)
    return tuple(key.items())


def check_value(name: str, value: object) -> None:
    """Raises unless the value is 1 to 1,024 bytes of text."""
    if not isinstance(value, str):
        raise InputError(
            f"the value of {shown(name)} is no text; pass text, such as an id in digits"
        )
    if value == "":
        raise InputError(
            f"the value of {shown(name)} is empty; callers without a value must not share a "
            "history, so reject them before the call"
        )
    size = len(encoded(value, f"the value of {shown(name)}"))
    if size > MAX_VALUE_BYTES:
        raise InputError(
            f"the value of {shown(name)} has {size} bytes, and at most {MAX_VALUE_BYTES} are "
            "allowed; pass a hash of it"
        )


def check_units(n: object, name: str = "n", least: int = 0) -> int:
    """Returns a number of units."""
    return check_number(n, name, least, MAX_UNITS)


def check_number(n: object, name: str, least: int, most: int) -> int:
    """Returns a whole number within bounds."""
    whole = isinstance(n, int) and not isinstance(n, bool)
    if not whole or not least <= n <= most:  # type: ignore[operator]
        raise InputError(f"{name} must be a whole number, {least} to {most}, not {shown(n)}")
    return n  # type: ignore[return-value]


def check_id(id: object) -> Optional[str]:
    """Returns an idempotency key, or None for none."""
    if id is None:
        return None
    if not isinstance(id, str) or not 1 <= len(encoded(id, "the id")) <= MAX_ID_BYTES:
        raise InputError(
            f"an id is text of 1 to {MAX_ID_BYTES} bytes; leave it out for an operation without one"
        )
    return id


def check_limits(limits: object) -> Tuple[str, ...]:
    """Returns the lines of an inline policy."""
    lines = [limits] if isinstance(limits, str) else limits
    if not isinstance(lines, (list, tuple)):
        raise InputError(f'a limit is text, such as "10 per minute per user", not {shown(limits)}')
    if not lines:
        raise InputError('a policy has at least one limit, such as "10 per minute per user"')
    for line in lines:
        if not isinstance(line, str) or not line.strip():
            raise InputError(
                f'a limit is text, such as "10 per minute per user", not {shown(line)}'
            )
        encoded(line, "a limit")
    return tuple(lines)


def check_name(name: object, sentence: str) -> str:
    """Returns a name. The sentence is that of the error for another value."""
    if not isinstance(name, str) or not name:
        raise InputError(f"{sentence}, not {shown(name)}")
    encoded(name, "a name")
    return name


def check_seconds(value: object, name: str, least_ms: int = 0, most_ms: int = MAX_MS) -> int:
    """Returns a time in whole milliseconds, rounded up."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not least_ms <= value * 1000 <= most_ms:  # type: ignore[operator]
        raise InputError(
            f"{name} must be a number of seconds, {least_ms / 1000:g} to {most_ms // 1000}, "
            f"not {shown(value)}"
        )
    milliseconds = round(value * 1000, 3)  # type: ignore[operator] # 0.07 * 1000 is above 70
    return math.ceil(milliseconds)


def check_wait(seconds: object) -> int:
    """Returns a longest wait in milliseconds. Infinity, −1 on the wire, is as long as the policy
    allows."""
    return -1 if seconds == math.inf else check_seconds(seconds, "the longest wait")


def encoded(text: str, what: str) -> bytes:
    """Returns the UTF-8 of a text."""
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        raise InputError(
            f"{what} is no valid Unicode ({err.reason}); decode it as UTF-8 first"
        ) from err


def shown(value: object) -> str:
    """Returns a short form of a value for an error."""
    if isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
