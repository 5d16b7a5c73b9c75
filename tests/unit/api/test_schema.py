"""The transformer from pydantic's JSON schema to what an API server takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from kvpool_operator.api.base import PRESERVE, STRUCTURAL_DEFAULT, FreeObject, Model, Rule, list_map, rules
from kvpool_operator.api.crd import KINDS, root_schema
from kvpool_operator.api.schema import NotStructural, Schema, structural_schema


class Leaf(Model):
    """A leaf."""

    name: str
    """Its name."""


class Tree(Model):
    """A tree."""

    leaf: Annotated[Leaf | None, Field(json_schema_extra=rules(Rule("self.name != ''", "a leaf has a name")))] = None
    """The leaf that matters."""
    leaves: Annotated[list[Leaf] | None, Field(json_schema_extra=list_map("name"), max_length=3)] = None
    height_meters: int = 3
    kind: Literal["Oak"] = "Oak"
    labels: dict[str, str] | None = None
    anything: FreeObject | None = None
    count: Annotated[int, Field(json_schema_extra=STRUCTURAL_DEFAULT)] = 1


TREE = structural_schema(Tree)["properties"]


def test_a_reference_is_inlined_and_the_fields_own_words_win() -> None:
    assert TREE["leaf"] == {
        "description": "The leaf that matters.",
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"description": "Its name.", "type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.name != ''", "message": "a leaf has a name"}],
    }


def test_a_list_keeps_its_keys_and_bounds() -> None:
    leaves = TREE["leaves"]
    assert leaves["x-kubernetes-list-type"] == "map"
    assert leaves["x-kubernetes-list-map-keys"] == ["name"]
    assert leaves["maxItems"] == 3
    assert leaves["items"]["properties"]["name"]["type"] == "string"


def test_names_are_camel_case_and_a_single_literal_is_an_enum() -> None:
    assert TREE["heightMeters"] == {"type": "integer"}
    assert TREE["kind"] == {"type": "string", "enum": ["Oak"]}


def test_a_default_reaches_the_api_server_only_where_the_model_asks_for_it() -> None:
    assert "default" not in TREE["heightMeters"]
    assert TREE["count"] == {"type": "integer", "default": 1}


def test_maps_are_typed_and_free_objects_say_so() -> None:
    assert TREE["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert TREE["anything"] == {"type": "object", **PRESERVE}


class Union(Model):
    value: int | str


class Recursive(Model):
    child: Recursive | None = None


class Unsaid(Model):
    value: dict[str, Any]


class Untyped(Model):
    value: Any


class Exclusive(Model):
    value: Annotated[int, Field(gt=3)]


@pytest.mark.parametrize(
    "model, complaint",
    [
        (Union, "Union.value: a union"),
        (Recursive, "Recursive contains itself"),
        (Unsaid, "Unsaid.value: a free-form object must say so"),
        (Untyped, "Untyped.value: the node has no type"),
        (Exclusive, "Exclusive.value: exclusiveMinimum cannot be said"),
    ],
)
def test_what_no_structural_schema_can_say_is_an_error(model: type[Model], complaint: str) -> None:
    with pytest.raises(NotStructural, match=complaint):
        structural_schema(model)


def _nodes(schema: Schema, path: str = "") -> list[tuple[str, Schema]]:
    out = [(path, schema)]
    for name, child in schema.get("properties", {}).items():
        out += _nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out += _nodes(schema[key], f"{path}[]")
    return out


INT_OR_STRING = "x-kubernetes-int-or-string"
ALL_NODES = [(f"{kind.name}{path}", node) for kind in KINDS for path, node in _nodes(root_schema(kind))]


def test_every_node_of_the_real_schemas_has_a_type_and_bounds_where_rules_iterate() -> None:
    assert [path for path, node in ALL_NODES if "type" not in node and not node.get(INT_OR_STRING)] == []
    assert [path for path, node in ALL_NODES if node.get("type") == "array" and "maxItems" not in node] == []
    maps = [(path, node) for path, node in ALL_NODES if isinstance(node.get("additionalProperties"), dict)]
    assert [path for path, node in maps if "maxProperties" not in node] == []


def test_every_list_says_how_appliers_share_it() -> None:
    assert [p for p, node in ALL_NODES if node.get("type") == "array" and "x-kubernetes-list-type" not in node] == []


def test_every_named_field_of_the_real_schemas_is_described() -> None:
    owned_by_the_api_server = ("metadata", "metadata.name")
    silent = [
        path
        for path, node in ALL_NODES
        if "description" not in node
        and not path.endswith("[]")
        and path.partition(".")[2] not in owned_by_the_api_server
    ]
    assert silent == []


def test_no_default_reaches_a_pod() -> None:
    assert [path for path, node in ALL_NODES if "default" in node] == ["InferenceRole.spec.replicas"]


def test_there_are_no_floats() -> None:
    assert [path for path, node in ALL_NODES if node.get("type") == "number"] == []
