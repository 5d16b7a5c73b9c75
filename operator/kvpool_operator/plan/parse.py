"""From a stored object to its model, or a violation that names the field and the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.checks import Violation

ModelType = TypeVar("ModelType", bound=BaseModel)


def parse_spec(model: type[ModelType], obj: Mapping[str, Any]) -> ModelType | Violation:
    """Read `spec` of a live object.

    The API server has validated it already; this catches objects stored under an older or newer schema.
    """
    try:
        return model.model_validate(obj.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        return Violation(Reason.INVALID_SPEC, f"{path}: {first['msg']} (found {first['input']!r})")
