"""Pieces that several pod templates share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def compact(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not set: the API server refuses nulls in an apply, and empty values say nothing."""
    return {key: item for key, item in value.items() if item is not None and item != {} and item != []}


def pull_secrets(names: Iterable[str]) -> list[dict[str, str]]:
    """imagePullSecrets of a pod."""
    return [{"name": name} for name in names]


def unprivileged() -> dict[str, Any]:
    """Security context of a container that needs nothing of the node."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
