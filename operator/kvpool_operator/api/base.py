"""What all models of the API share: camelCase names, sizes, references, and where CEL rules live.

Two readings of one model: `extra="ignore"` when a live object is parsed, since an older operator meets newer fields;
the API server itself refuses unknown fields under strict validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from kvpool_connector.contract.quantity import PATTERN


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule on a node of the schema: what must hold, what to say if not, and which field to point at."""

    rule: str
    message: str
    field_path: str | None = None
    reason: str | None = None

    def to_schema(self) -> dict[str, str]:
        """The entry of x-kubernetes-validations."""
        entry = {"rule": self.rule, "message": self.message}
        if self.field_path:
            entry["fieldPath"] = self.field_path
        if self.reason:
            entry["reason"] = self.reason
        return entry


class Model(BaseModel):
    """Base of every API model."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, use_attribute_docstrings=True
    )


def rules(*entries: Rule) -> dict[str, Any]:
    """`json_schema_extra` that attaches CEL rules to a model or a field."""
    return {"x-kubernetes-validations": [entry.to_schema() for entry in entries]}


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose items are told apart by these members, so that appliers may own single items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
PRESERVE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
STRUCTURAL_DEFAULT: dict[str, Any] = {"x-structural-default": True}
"""The API server itself fills in the field's default; never for what reaches a pod."""

Quantity = Annotated[
    str,
    Field(
        pattern=PATTERN,
        max_length=20,
        json_schema_extra=rules(
            Rule(
                "isQuantity(self) && quantity(self).isInteger()",
                "sizes have no decimals: write a whole number with Ki, Mi, Gi or Ti, such as 20Gi",
            )
        ),
    ),
]

Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
FreeObject = Annotated[dict[str, Any], Field(json_schema_extra=PRESERVE)]
FreeList = Annotated[list[FreeObject], Field(json_schema_extra=ATOMIC, max_length=64)]
LabelMap = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)]


class EnvVar(Model):
    """One variable; values are strings, as in a pod."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=128)]
    """Name of the variable."""
    value: Annotated[str | None, Field(max_length=4096)] = None
    """The value; $(NAME) refers to a variable set before."""
    value_from: FreeObject | None = None
    """A source of the value, as in a pod: fieldRef, configMapKeyRef, secretKeyRef."""


EnvList = Annotated[list[EnvVar], Field(json_schema_extra=list_map("name"), max_length=64)]
ArgList = Annotated[list[Annotated[str, Field(max_length=2048)]], Field(json_schema_extra=ATOMIC, max_length=128)]
ImageRef = Annotated[str, Field(min_length=1, max_length=512)]


class LocalObjectReference(Model):
    """An object of the same namespace."""

    name: Name
    """Its name."""


PullSecrets = Annotated[list[LocalObjectReference], Field(json_schema_extra=list_map("name"), max_length=8)]


ResourceValue = Annotated[
    int | str,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            **rules(
                Rule(
                    "type(self) != string || isQuantity(self)",
                    "not a quantity: write a number with or without a unit, such as 4, 500m or 64Gi",
                )
            ),
        }
    ),
]
ResourceMap = Annotated[dict[str, ResourceValue], Field(max_length=16)]


class Resources(Model):
    """Requests and limits of a container, as in a pod."""

    requests: ResourceMap | None = None
    """What the scheduler sets aside."""
    limits: ResourceMap | None = None
    """What the container may use at most."""


class Placement(Model):
    """Where pods may run; copied into every pod it applies to."""

    node_selector: LabelMap | None = None
    """Labels a node must carry."""
    tolerations: FreeList | None = None
    """Taints that are tolerated, as in a pod."""
    affinity: FreeObject | None = None
    """Affinity, as in a pod."""
    priority_class_name: Annotated[str | None, Field(max_length=253)] = None
    """Priority class of the pods."""
    scheduler_name: Annotated[str | None, Field(max_length=253)] = None
    """Scheduler of the pods; the cluster's default when left out."""
    runtime_class_name: Annotated[str | None, Field(max_length=253)] = None
    """Runtime class of the pods."""
