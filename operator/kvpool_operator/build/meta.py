"""What every child has: its name, labels, its owner, and a hash of what was wanted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvpool_operator.api import API_VERSION
from kvpool_operator.api.names import COMPONENT_LABEL, DESIRED_HASH, MANAGED_BY, MANAGED_BY_LABEL
from kvpool_operator.plan.canonical import digest


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that the children belong to and go with."""

    kind: str
    name: str
    namespace: str
    uid: str
    label: str
    """The label that names the owner on each child."""
    extra_labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, kind: str, obj: Mapping[str, Any], label: str) -> Owner:
        """The owner as its children see it."""
        meta = obj["metadata"]
        return cls(kind=kind, name=meta["name"], namespace=meta["namespace"], uid=meta["uid"], label=label)

    def with_labels(self, labels: Mapping[str, str]) -> Owner:
        """The same owner for children that carry further labels."""
        return replace(self, extra_labels=(*self.extra_labels, *labels.items()))


def owned(
    owner: Owner,
    api_version: str,
    kind: str,
    name: str,
    component: str,
    body: Mapping[str, Any],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A child object. The hash annotation changes whenever anything wanted changes, so removals are noticed too."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**standard_labels(owner, component), **(labels or {})},
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ],
    }
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
    metadata["annotations"] = {**(annotations or {}), DESIRED_HASH: digest({**obj, "annotations": annotations or {}})}
    return obj


def standard_labels(owner: Owner, component: str) -> dict[str, str]:
    """The recommended labels and the one that selects."""
    return {
        "app.kubernetes.io/name": "kvpool",
        "app.kubernetes.io/instance": owner.name,
        COMPONENT_LABEL: component,
        MANAGED_BY_LABEL: MANAGED_BY,
        owner.label: owner.name,
        **dict(owner.extra_labels),
    }
