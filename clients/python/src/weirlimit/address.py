"""The URL of a server."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Optional, Tuple, Union
from urllib.parse import unquote, urlsplit

from . import http1, resp
from .errors import InputError
from .inputs import shown

Codec = Union[resp.Codec, http1.Codec]

# Each scheme: whether it is HTTP, whether it uses TLS, and its port.
SCHEMES = {
    "redis": (False, False, 7073),
    "rediss": (False, True, 7073),
    "weir": (False, False, 7073),
    "weirs": (False, True, 7073),
    "http": (True, False, 80),
    "https": (True, True, 443),
}


@dataclass(frozen=True)
class Address:
    """Where weir listens, and how it is spoken to."""

    place: str  # host:port or the path of a socket, for errors
    host: str
    port: int
    path: Optional[str]  # of a Unix socket
    http: bool
    tls: Optional[ssl.SSLContext]
    token: Optional[str]

    @property
    def lanes(self) -> Tuple[int, bool]:
        """Returns the most connections, and whether calls share one in a pipeline."""
        return (8, False) if self.http else (1, True)

    def codec(self) -> Codec:
        """Returns the codec of a new connection."""
        if not self.http:
            return resp.Codec(self.token, self.place)
        return http1.Codec(self.token, self.place, self.place)


def parse(url: object, token: Optional[str], tls: Optional[ssl.SSLContext]) -> Address:
    """Returns the address of a URL. It raises InputError for another text."""
    if url is None:
        url = os.environ.get("WEIR_URL") or None
    if url is None or url == "":
        raise InputError(
            "url is missing; pass it, or set WEIR_URL, to the address of weir serve --resp-listen, "
            "such as redis://127.0.0.1:7073, or that of --listen, such as http://127.0.0.1:7070"
        )
    if not isinstance(url, str):
        raise wrong(url)
    scheme, _, rest = url.partition(":")
    if scheme == "unix":
        path = "/" + rest.lstrip("/")
        if path == "/" or not rest.startswith("/"):
            raise InputError(f"the url {shown(url)} has no path; write unix:/run/weir.sock")
        check_tls(tls, False, "unix:" + path)
        return Address(path, "", 0, path, False, None, check_token(token))
    if scheme not in SCHEMES:
        raise wrong(url)
    http, encrypted, port = SCHEMES[scheme]
    try:
        parts = urlsplit(url)
        port = parts.port or port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # also UnicodeError, of a name that cannot be looked up
        raise wrong(url) from None
    if not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong(url)
    if parts.username and not parts.password:
        raise InputError(
            f"the url {shown(masked(url))} has a user and no password; the password is the token, "
            f"as in {scheme}://:TOKEN@{host}"
        )
    if token is None and parts.password:
        token = unquote(parts.password)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    check_tls(tls, encrypted, f"{scheme}://{place}")
    context = (tls or ssl.create_default_context()) if encrypted else None
    return Address(place, host, port, None, http, context, check_token(token))


def wrong(url: object) -> InputError:
    """Returns the error of another text, without the token in it."""
    text = masked(url) if isinstance(url, str) else url
    token = "; in a token write / as %2F, and # as %23" if "@" in str(text) else ""
    return InputError(
        f"the url {shown(text)} is no address; write redis://host:port (rediss:// with TLS), "
        f"unix:/path, or http://host:port (https:// with TLS), without a path{token}"
    )


def masked(url: str) -> str:
    """Returns a URL for an error, without what may be a token."""
    return re.sub(r"^([a-z]*:(?://)?)?.*@", r"\1…@", url, flags=re.S)


def check_tls(tls: object, encrypted: bool, shown_url: str) -> None:
    """Raises unless tls is a context that is used, or None."""
    if tls is None:
        return
    if not isinstance(tls, ssl.SSLContext):
        raise InputError(
            f"tls must be an ssl.SSLContext, such as that of ssl.create_default_context(), "
            f"not {shown(tls)}"
        )
    if not encrypted:
        raise InputError(
            f"tls has no effect with {shown_url}; write rediss:// or https:// in the url"
        )


def check_token(token: object) -> Optional[str]:
    """Returns the token, or None for none."""
    if token is None:
        return None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InputError(
            "token must be text of printable ASCII without a line end; is it read with its newline?"
        )
    return token
