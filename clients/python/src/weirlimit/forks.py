"""Objects that a child process must renew, because threads of its parent may hold their locks."""

from __future__ import annotations

import os
import weakref
from typing import Any

renewed: "weakref.WeakSet[Any]" = weakref.WeakSet()


def renew_after_fork(owner: Any) -> None:
    """Has owner.after_fork called in each child process."""
    renewed.add(owner)


def after_fork() -> None:
    for owner in list(renewed):
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=after_fork)
