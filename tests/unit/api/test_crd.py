"""The CustomResourceDefinitions, as objects."""

from __future__ import annotations

import re

import pytest
import yaml

from kvpool_operator.api.conditions import READY
from kvpool_operator.api.crd import KINDS, Kind, crd, root_schema

KIND_IDS = [kind.name for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_a_crd_stays_small_enough_for_every_way_of_applying_it(kind: Kind) -> None:
    assert len(yaml.safe_dump(crd(kind))) < 100_000


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_no_name_is_taken_twice(kind: Kind) -> None:
    """kubectl reads `get WORD NAME` as a category first, so a category must not be called like a kind."""
    names = crd(kind)["spec"]["names"]
    words = [names["plural"], names["singular"], *names["shortNames"], *names["categories"]]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_columns_and_subresources_point_at_fields_that_exist(kind: Kind) -> None:
    (version,) = crd(kind)["spec"]["versions"]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    paths += version["subresources"].get("scale", {}).values()
    for path in paths:
        if path == ".metadata.creationTimestamp":
            continue
        node = root_schema(kind)
        for part in re.sub(r"\[\?.*?\)\]", "[]", path).lstrip(".").split("."):
            node = node["properties"][part.removesuffix("[]")]
            node = node["items"] if part.endswith("[]") else node


def test_pools_and_groups_show_whether_they_are_ready_and_age_comes_last() -> None:
    for kind in KINDS:
        assert kind.columns[-1].name == "Age"
    for kind in KINDS[:2]:
        assert kind.columns[0].name == READY


def test_only_roles_can_be_scaled() -> None:
    scaled = {kind.name: "scale" in crd(kind)["spec"]["versions"][0]["subresources"] for kind in KINDS}
    assert scaled == {"KVPool": False, "InferenceGroup": False, "InferenceRole": True}


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_every_rule_says_what_to_do_in_one_line(kind: Kind) -> None:
    def walk(node: dict) -> None:  # type: ignore[type-arg]
        for entry in node.get("x-kubernetes-validations", ()):
            assert 20 < len(entry["message"]) < 300
            assert "\n" not in entry["message"]
        for child in [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])]:
            walk(child)

    walk(root_schema(kind))
