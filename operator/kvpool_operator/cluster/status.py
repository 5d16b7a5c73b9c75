"""Writing status: only when it differs, so that a converged object costs no write at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.errors import ConflictError, InvalidError, NotFoundError, ObserveAgainError
from kvpool_operator.plan.canonical import canonical, without_empty
from kvpool_operator.plan.facts import Object


async def write_status(api: ClusterAPI, observed: Object, status: Mapping[str, Any]) -> bool:
    """Apply the whole status of one of our kinds; returns whether a write was needed."""
    if canonical(observed.get("status") or {}) == canonical(status):
        return False
    meta = observed["metadata"]
    body = {
        "apiVersion": observed["apiVersion"],
        "kind": observed["kind"],
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "status": without_empty(status),
    }
    try:
        await api.apply(body, subresource="status")
    except (ConflictError, NotFoundError) as error:
        raise ObserveAgainError(f"status of {observed['kind']} {meta['name']}: {error}") from error
    except InvalidError as error:
        if error.is_about("metadata.uid"):
            raise ObserveAgainError(str(error)) from error
        raise
    return True
