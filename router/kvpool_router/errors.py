"""Error answers in the shape vLLM's OpenAI server gives, so that clients need one way to read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

_TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "TimeoutError",
    413: "RequestTooLargeError",
    429: "TooManyRequestsError",
    500: "InternalServerError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}


class RouterError(Exception):
    """An answer the router gives itself; `reason` is its name in metrics and the access log."""

    def __init__(self, status: HTTPStatus, reason: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


def error_object(status: int, message: str) -> dict[str, object]:
    """The `error` object of vLLM's OpenAI server."""
    kind = _TYPES.get(status, "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": None, "code": int(status)}}


def error_response(error: RouterError, headers: Mapping[str, str]) -> web.Response:
    """The HTTP answer for an error that the router itself raises."""
    extra = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return web.json_response(
        error_object(error.status, error.message), status=error.status, headers={**headers, **extra}
    )


def error_event(status: int, message: str) -> bytes:
    """The server-sent event that ends a broken stream; the blank line before it ends a half-sent event."""
    return b"\n\ndata: " + json.dumps(error_object(status, message)).encode() + b"\n\n"
