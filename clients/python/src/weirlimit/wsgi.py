"""Middleware for WSGI: Flask, Django, Bottle and others::

limiter = Weir().limit("100 per minute per ip")
app.wsgi_app = LimitMiddleware(app.wsgi_app, limiter)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from . import web
from .client import Limiter, Reservation
from .errors import InputError, WeirError
from .inputs import Key

Environ = Dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class LimitMiddleware:
    """Answers 429 in place of the application.

    :param key: returns the key of a request, such as ``{"user": …}`` by its login, or None for a
        request that does not count; default: ``{"ip": …}``, the client's address. A request whose
        key has no value gets status 400.
    :param proxies: how many proxies of one's own add to X-Forwarded-For; 0 ignores the field.
    :param hold: reserves, and settles at the end of the response: for limits such as
        "20 at once per ip".

    The application finds the decision in ``environ["weirlimit.decision"]``. Without weir
    ``when_down`` decides: 503, or the request passes. Errors such as a wrong policy are raised.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter,
        key: Optional[Callable[[Environ], Optional[Key]]] = None,
        *,
        proxies: int = 0,
        hold: bool = False,
    ) -> None:
        if not isinstance(limiter, Limiter):
            raise InputError(
                "weirlimit.wsgi needs a limiter of weirlimit, not of weirlimit.asyncio"
            )
        self._app = app
        self._limiter = limiter
        self._addresses = web.Addresses(proxies)
        self._key = key or self._address
        self._hold = hold

    def _address(self, environ: Environ) -> Key:
        """Returns the address of the client. ProxyFix of Werkzeug leaves a mark."""
        field = environ.get("HTTP_X_FORWARDED_FOR")
        forwarded = [] if field is None else [field]
        rewritten = "werkzeug.proxy_fix.orig" in environ
        peer = environ.get("REMOTE_ADDR", "")
        return {"ip": self._addresses.find(peer, forwarded, rewritten)}

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        key = self._key(environ)
        if key is None:
            return self._app(environ, start_response)
        answer = web.bad_key(key)
        if answer is not None:
            return send(answer, start_response)
        held = self._limiter.reserve(key) if self._hold else None
        decision = self._limiter.take(key) if held is None else held.decision
        answer = web.refusal(decision, self._limiter.name)
        if answer is not None:
            return send(answer, start_response)
        environ["weirlimit.decision"] = decision
        fields = web.limit_fields(decision, self._limiter.name)

        def start(status: str, headers: List[Any], *error: Any) -> Any:
            return start_response(status, [*headers, *fields], *error)

        if held is None:
            return self._app(environ, start)
        try:
            return Held(self._app(environ, start), held)
        except BaseException:
            finish(held)
            raise


def send(answer: web.Answer, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Sends an answer in place of the application."""
    start_response(f"{answer.status} {answer.title}", answer.fields)
    return [answer.body]


class Held:
    """A response at whose end a reservation is settled."""

    def __init__(self, response: Iterable[bytes], held: Reservation) -> None:
        self._response = response
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        """Ends the response; the server calls it."""
        try:
            close = getattr(self._response, "close", None)
            if close is not None:
                close()
        finally:
            finish(self._held)


def finish(held: Reservation) -> None:
    """Ends a hold. The response is sent, so an error is logged."""
    try:
        held.done()
    except WeirError as err:
        web.logger.warning("a hold is not ended: %s", err)
