"""Middleware for ASGI: Starlette, FastAPI, Quart and others::

limiter = weirlimit.asyncio.Weir().limit("100 per minute per ip")
app.add_middleware(LimitMiddleware, limiter=limiter)
"""

from __future__ import annotations

import inspect
from typing import Any, Awaitable, Callable, Dict, List, MutableMapping, Optional, Union

from . import web
from .asyncio import Limiter, Reservation
from .errors import InputError, WeirError
from .inputs import Key

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
KeyOf = Callable[[Scope], Union[Optional[Key], Awaitable[Optional[Key]]]]


class LimitMiddleware:
    """Answers 429 in place of the application, and closes a WebSocket before it is accepted.

    The arguments are those of :class:`weirlimit.wsgi.LimitMiddleware`; key gets the scope, and
    may be a coroutine function. The application finds the decision in
    ``scope["weirlimit.decision"]``.
    """

    def __init__(
        self,
        app: App,
        limiter: Limiter,
        key: Optional[KeyOf] = None,
        *,
        proxies: int = 0,
        hold: bool = False,
    ) -> None:
        if not isinstance(limiter, Limiter):
            raise InputError("weirlimit.asgi needs a limiter of weirlimit.asyncio")
        self._app = app
        self._limiter = limiter
        self._addresses = web.Addresses(proxies)
        self._key: KeyOf = key or self._address
        self._hold = hold

    def _address(self, scope: Scope) -> Key:
        """Returns the address of the client. A server that reads X-Forwarded-For sets port 0."""
        forwarded = [
            value.decode("latin-1")
            for name, value in scope["headers"]
            if name == b"x-forwarded-for"
        ]
        host, port = scope.get("client") or ("", None)
        return {"ip": self._addresses.find(host, forwarded, rewritten=port == 0)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        key = self._key(scope)
        if inspect.isawaitable(key):
            key = await key
        if key is None:
            return await self._app(scope, receive, send)
        answer = web.bad_key(key)
        if answer is not None:
            return await refuse(scope, receive, send, answer)
        held = await self._limiter.reserve(key) if self._hold else None
        decision = await self._limiter.take(key) if held is None else held.decision
        answer = web.refusal(decision, self._limiter.name)
        if answer is not None:
            return await refuse(scope, receive, send, answer)
        scope["weirlimit.decision"] = decision
        fields = encoded(web.limit_fields(decision, self._limiter.name))

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *fields]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_fields)
        finally:
            if held is not None:
                await finish(held)


def encoded(fields: web.Fields) -> List[Any]:
    """Returns fields as ASGI has them."""
    return [(name.lower().encode(), value.encode()) for name, value in fields]


async def refuse(scope: Scope, receive: Receive, send: Send, answer: web.Answer) -> None:
    """Sends an answer in place of the application."""
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        policy_violation = 1008
        await send({"type": "websocket.close", "code": policy_violation, "reason": answer.title})
        return
    start: Dict[str, Any] = {"type": "http.response.start", "status": answer.status}
    await send({**start, "headers": encoded(answer.fields)})
    await send({"type": "http.response.body", "body": answer.body})


async def finish(held: Reservation) -> None:
    """Ends a hold. The response is sent, so an error is logged."""
    try:
        await held.done()
    except WeirError as err:
        web.logger.warning("a hold is not ended: %s", err)
