"""Structural schemas out of pydantic models: what a CustomResourceDefinition accepts as openAPIV3Schema.

The API server takes less than JSON Schema offers: no references, no unions, a type on every node, no null. Whatever
pydantic says beyond that is either translated here or refused, so that a new field cannot slip into a CRD half said.

A default is kept only where a model asks for it (`STRUCTURAL_DEFAULT`): a default added to a CRD changes every stored
object as read, and would restart pods that nobody touched.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_VALIDATIONS = "x-kubernetes-validations"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_DEFAULT_MARK = "x-structural-default"
# What passes as it is, in the order in which it is written.
_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    _PRESERVE,
    _INT_OR_STRING,
)
# What says nothing to the API server, or is handled by name below.
_HANDLED = {"title", "default", "const", "properties", "required", "items", "additionalProperties", "$defs"}
_KNOWN = {*_KEPT, *_HANDLED, _VALIDATIONS, _DEFAULT_MARK}


class NotStructural(ValueError):
    """A model says something that no structural schema can say."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The openAPIV3Schema node of one model, with everything it refers to inlined."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _node(document, document.get("$defs", {}), model.__name__, ())


def _node(source: Schema, definitions: dict[str, Schema], path: str, seen: tuple[str, ...]) -> Schema:
    node, seen = _resolved(source, definitions, path, seen)
    unknown = node.keys() - _KNOWN
    if unknown:
        raise NotStructural(f"{path}: {', '.join(sorted(unknown))} cannot be said in a structural schema")
    if "const" in node:
        node["enum"] = [node["const"]]
    if "type" not in node and not node.get(_INT_OR_STRING):
        raise NotStructural(f"{path}: the node has no type")
    out: Schema = {key: node[key] for key in _KEPT if key in node}
    if node.get(_DEFAULT_MARK):
        out["default"] = node["default"]
    if node.get("required"):
        out["required"] = node["required"]
    if "properties" in node:
        out["properties"] = {
            name: _node(child, definitions, f"{path}.{name}", seen) for name, child in node["properties"].items()
        }
    if "items" in node:
        out["items"] = _node(node["items"], definitions, f"{path}[]", seen)
    more = node.get("additionalProperties")
    if isinstance(more, dict):
        out["additionalProperties"] = _node(more, definitions, f"{path}[key]", seen)
    elif more and not node.get(_PRESERVE):
        raise NotStructural(f"{path}: a free-form object must say so (PRESERVE)")
    if node.get(_VALIDATIONS):
        out[_VALIDATIONS] = node[_VALIDATIONS]
    return out


def _resolved(
    source: Schema, definitions: dict[str, Schema], path: str, seen: tuple[str, ...]
) -> tuple[Schema, tuple[str, ...]]:
    """The node with its reference followed and its `X or null` read as an optional X."""
    node = dict(source)
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            name = node.pop("$ref").rsplit("/", 1)[-1]
            if name in seen:
                raise NotStructural(f"{path}: {name} contains itself")
            seen = (*seen, name)
            node = _merged(definitions[name], node)
        else:
            variants = [variant for variant in node.pop("anyOf") if variant.get("type") != "null"]
            if len(variants) != 1:
                raise NotStructural(f"{path}: a union; write an enum `type` and one optional block each")
            node = _merged(variants[0], node)
    return node, seen


def _merged(below: Schema, above: Schema) -> Schema:
    """What the field says wins over what its type says; the rules of both hold."""
    validations = [*below.get(_VALIDATIONS, []), *above.get(_VALIDATIONS, [])]
    merged = {**below, **above}
    return {**merged, _VALIDATIONS: validations} if validations else merged
