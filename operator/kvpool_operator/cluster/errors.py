"""What can go wrong with a request, by meaning: each class is one way to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}

    def causes(self) -> list[Mapping[str, Any]]:
        """The single complaints of the answer."""
        return list(self.details.get("causes") or [])

    def is_about(self, field: str) -> bool:
        """Whether one of them names this field."""
        return any(cause.get("field") == field for cause in self.causes())


class NotFoundError(ApiError):
    """There is no such object."""


class AlreadyExistsError(ApiError):
    """A name is taken."""


class ConflictError(ApiError):
    """The object changed meanwhile: observe again."""


class InvalidError(ApiError):
    """The API server refuses the content; trying again is of no use before the spec changes."""


class ForbiddenError(ApiError):
    """Not allowed: a missing permission, or a namespace that is going away."""


class TransientError(ApiError):
    """Overload, a time-out or a broken connection: try again later."""


class ObserveAgainError(Exception):
    """What was seen is out of date; look again before deciding anything."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    403: ForbiddenError,
    404: NotFoundError,
    422: InvalidError,
    429: TransientError,
}


_UNTYPED_PATCH = "failed to create typed patch object"
"""How the API server (1.35) answers an apply with a value of the wrong type: as a 500 without a reason."""


def error_from_status(status: int, body: Mapping[str, Any]) -> ApiError:
    """The exception for an HTTP status and the Status object in its body."""
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or "no message")
    if status == 409:
        kind: type[ApiError] = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    elif status == 500 and message.startswith(_UNTYPED_PATCH):
        kind = InvalidError
    else:
        kind = _BY_STATUS.get(status, TransientError if status >= 500 else ApiError)
    return kind(status, reason, message, body.get("details"))
