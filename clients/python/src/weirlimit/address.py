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
        return Address(path, "", 0, path, False, None, check_token(token))
    if scheme not in SCHEMES:
        raise wrong(url)
    http, encrypted, port = SCHEMES[scheme]
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or port
    except ValueError:
        raise wrong(url) from None
    if not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong(url)
    if token is None and parts.password is not None:
        token = unquote(parts.password)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    context = (tls or ssl.create_default_context()) if encrypted else None
    return Address(place, host, port, None, http, context, check_token(token))


def wrong(url: object) -> InputError:
    """Returns the error of another text, without the token in it."""
    text = re.sub(":[^:@/]*@", ":…@", url) if isinstance(url, str) else url
    return InputError(
        f"the url {shown(text)} is no address; write redis://host:port (rediss:// with TLS), "
        "unix:/path, or http://host:port (https:// with TLS), without a path"
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
