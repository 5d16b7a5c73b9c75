from __future__ import annotations

import pytest

from kvpool_operator.cluster.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TransientError,
    error_from_status,
)

# As the API server of the development cluster answers.
ANSWERS: list[tuple[int, dict[str, str], type[ApiError]]] = [
    (400, {"reason": "BadRequest", "message": "Deployment in version v1 cannot be handled"}, InvalidError),
    (403, {"reason": "Forbidden"}, ForbiddenError),
    (404, {"reason": "NotFound"}, NotFoundError),
    (409, {"reason": "AlreadyExists"}, AlreadyExistsError),
    (409, {"reason": "Conflict"}, ConflictError),
    (422, {"reason": "Invalid"}, InvalidError),
    (429, {"reason": "TooManyRequests"}, TransientError),
    (500, {"message": "etcdserver: request timed out"}, TransientError),
    (
        500,
        {"message": "failed to create typed patch object (a/b; apps/v1, Kind=Deployment): expected map"},
        InvalidError,
    ),
    (503, {"reason": "ServiceUnavailable"}, TransientError),
    (418, {}, ApiError),
]


@pytest.mark.parametrize("status, body, kind", ANSWERS)
def test_an_answer_has_one_meaning(status: int, body: dict[str, str], kind: type[ApiError]) -> None:
    assert type(error_from_status(status, body)) is kind
