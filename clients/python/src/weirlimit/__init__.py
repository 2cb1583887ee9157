"""Exact rolling-window rate limits from Python, decided by ``weir serve``.

::

    from weirlimit import Weir

    weir = Weir("redis://127.0.0.1:7073")
    limiter = weir.limit("10 per minute per user, 3s apart")
    if not limiter.take({"user": "ann"}):
        ...  # 429

``weirlimit.asyncio`` has the same client for asyncio, ``weirlimit.wsgi`` and ``weirlimit.asgi``
middleware, and ``weirlimit.storage`` a storage for the package limits: Flask-Limiter and SlowAPI.
"""

from .client import Limiter, Reservation, Weir
from .decision import NEVER, Block, Decision, Reset, Settlement
from .errors import (
    AuthError,
    ExpiredError,
    InputError,
    ProtocolError,
    SettledError,
    UnavailableError,
    WeirError,
)

__version__ = "0.1.0"

__all__ = [
    "NEVER",
    "AuthError",
    "Block",
    "Decision",
    "ExpiredError",
    "InputError",
    "Limiter",
    "ProtocolError",
    "Reservation",
    "Reset",
    "SettledError",
    "Settlement",
    "UnavailableError",
    "Weir",
    "WeirError",
]
