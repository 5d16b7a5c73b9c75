"""Samples parse into the models, with no field that a model does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvpool_operator.api.crd import KINDS, root_schema
from kvpool_operator.api.schema import Schema
from kvpool_operator.platform.engine_releases import ENGINE_RELEASES
from kvpool_operator.platform.hardware import HARDWARE

FOLDER = Path(__file__).resolve().parents[2] / "samples"
DOCUMENTS = [
    pytest.param(document, id=f"{path.name}:{document['kind']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
BY_NAME = {kind.name: kind for kind in KINDS}


def _unknown(value: Any, schema: Schema, path: str) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _unknown(item, schema["items"], f"{path}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    found = [f"{path}.{name}" for name in value.keys() - known.keys()]
    return found + [
        n for name in value.keys() & known.keys() for n in _unknown(value[name], known[name], f"{path}.{name}")
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_sample_is_a_valid_object_without_unknown_fields(document: dict[str, Any]) -> None:
    kind = BY_NAME[document["kind"]]
    kind.model.model_validate(document)
    assert _unknown(document["spec"], root_schema(kind)["properties"]["spec"], "spec") == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_sample_names_hardware_and_releases_that_exist(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if document["kind"] == "KVPool":
        assert (spec["hardware"]["series"], spec["hardware"]["link"]) in HARDWARE
    else:
        assert spec["engine"]["release"] in ENGINE_RELEASES


def test_samples_leave_replicas_to_the_role_unless_they_say_why() -> None:
    fixed = [
        path.name
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        for role in document["spec"].get("roles", ())
        if "replicas" in role
    ]
    assert fixed == ["a3-hccs-mixed.yaml"]
