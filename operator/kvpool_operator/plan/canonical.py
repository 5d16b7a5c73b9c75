"""Canonical JSON and short digests: equal meaning gives equal text, whatever the order or spelling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST_LENGTH = 8


def without_empty(value: Any) -> Any:
    """The value without nulls and empty maps, at any depth: to the API server these mean "not set"."""
    if isinstance(value, Mapping):
        cleaned = {key: without_empty(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in cleaned.items() if item != {}}
    if isinstance(value, list | tuple):
        return [without_empty(item) for item in value]
    return value


def canonical(value: Any) -> str:
    """One text for all spellings of the same value."""
    return json.dumps(without_empty(value), sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Eight hexadecimal digits that stand for the value; used in names and labels."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:DIGEST_LENGTH]
