"""The errors of a call. A denial is no error: read ``allowed`` of a decision."""

from __future__ import annotations


class WeirError(Exception):
    """No decision or no answer. The text has the fault, its place and the next step."""


class InputError(WeirError, ValueError):
    """The call is wrong, such as a policy that the server does not have. Nothing was charged.

    It is raised in every mode of ``when_down``: a wrong name must not open the door.
    """


class AuthError(WeirError):
    """The token is missing, wrong, or lacks the right. Nothing was charged."""


class ProtocolError(WeirError):
    """The answer is none of weir, or of another version. It is no outage."""


class UnavailableError(WeirError):
    """Weir, or its store, did not answer in time. Whether units were charged may be unknown.

    ``take``, ``peek``, ``wait`` and ``reserve`` do not raise it: ``when_down`` decides, and
    the decision is ``degraded`` and has it as its ``error``.
    """


class BusyError(UnavailableError):
    """The client itself did not send the call, so weir is not to blame. Nothing was charged."""


class SettledError(WeirError):
    """The reservation was settled before, with another number. The first number stays."""


class ExpiredError(WeirError):
    """The reservation is unknown or has expired, or its hold has ended. Its units stay."""
