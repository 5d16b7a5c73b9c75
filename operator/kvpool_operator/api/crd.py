"""The CustomResourceDefinitions of the three kinds, made from their models.

`crds/` and the chart hold what `crd()` returns; nothing else writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kvpool_operator.api import GROUP, VERSION
from kvpool_operator.api.base import Rule
from kvpool_operator.api.group import InferenceGroup
from kvpool_operator.api.pool import KVPool
from kvpool_operator.api.role import InferenceRole
from kvpool_operator.api.schema import Schema, structural_schema

CATEGORY = "kvpool-all"
"""`kubectl get kvpool-all`. Not the name of a kind: kubectl would read `get kvpool NAME` as the category."""

_API_VERSION_TEXT = "Group and version of the API, kvpool.dev/v1alpha1."
_KIND_TEXT = "The kind of this object."
_NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; priority 1 shows with `-o wide` alone."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def to_crd(self) -> dict[str, Any]:
        """The entry of additionalPrinterColumns."""
        entry: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**entry, "priority": self.priority} if self.priority else entry


@dataclass(frozen=True, slots=True)
class Kind:
    """What a CRD says of a kind beyond its schema."""

    model: type[BaseModel]
    plural: str
    short: str
    columns: tuple[Column, ...]
    max_name: int | None = None
    """Longest name from which every derived name still fits."""
    scale: bool = False

    @property
    def name(self) -> str:
        """The kind as objects spell it."""
        return self.model.__name__

    @property
    def crd_name(self) -> str:
        """Name of the CRD object."""
        return f"{self.plural}.{GROUP}"


def _condition(name: str, type_: str, member: str, priority: int = 0) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{type_}")].{member}', priority=priority)


_AGE = Column("Age", ".metadata.creationTimestamp", "date")

KINDS: tuple[Kind, ...] = (
    Kind(
        KVPool,
        "kvpools",
        "kvp",
        (
            _condition("Ready", "Ready", "status"),
            Column("Backend", ".spec.backend"),
            Column("Series", ".spec.hardware.series"),
            Column("Link", ".spec.hardware.link"),
            Column("Members", ".status.members"),
            _condition("Reason", "Ready", "reason", 1),
            Column("Segment", ".spec.segment.size", priority=1),
            Column("Release", ".status.release", priority=1),
            _AGE,
        ),
        max_name=40,
    ),
    Kind(
        InferenceGroup,
        "inferencegroups",
        "ig",
        (
            _condition("Ready", "Ready", "status"),
            Column("Summary", ".status.summary"),
            Column("Pool", ".spec.poolRef.name"),
            _condition("Reason", "Ready", "reason", 1),
            Column("URL", ".status.url", priority=1),
            _AGE,
        ),
        max_name=30,
    ),
    Kind(
        InferenceRole,
        "inferenceroles",
        "ir",
        (
            Column("Desired", ".spec.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
            _AGE,
        ),
        scale=True,
    ),
)


def crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [column.to_crd() for column in kind.columns],
                    "subresources": _subresources(kind),
                    "schema": {"openAPIV3Schema": root_schema(kind)},
                }
            ],
        },
    }


def root_schema(kind: Kind) -> Schema:
    """The schema of whole objects: the model, and what the API server itself owns of every object."""
    schema = structural_schema(kind.model)
    properties = schema["properties"]
    del properties["metadata"]
    schema["properties"] = {
        "apiVersion": {"description": _API_VERSION_TEXT, "type": "string"},
        "kind": {"description": _KIND_TEXT, "type": "string"},
        "metadata": {"type": "object"},
        **properties,
    }
    if kind.max_name is not None:
        schema["properties"]["metadata"]["properties"] = {"name": {"type": "string", "maxLength": 253}}
        schema["x-kubernetes-validations"] = [rule.to_schema() for rule in name_rules(kind.max_name)]
    return schema


def name_rules(longest: int) -> tuple[Rule, ...]:
    """What a name must be so that Services and pods can be named after it."""
    return (
        Rule(
            f"self.metadata.name.size() <= {longest}",
            f"the name may have at most {longest} characters, since names of children are built from it",
            ".metadata.name",
        ),
        Rule(
            f"self.metadata.name.matches('{_NAME_PATTERN}')",
            "the name must start with a letter and hold only lower-case letters, digits and '-': "
            "Services are named after it",
            ".metadata.name",
        ),
    )


def _subresources(kind: Kind) -> dict[str, Any]:
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return {"status": {}, "scale": scale} if kind.scale else {"status": {}}
