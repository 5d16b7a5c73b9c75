"""The CRDs on a real API server: they load, are served under their names, and explain themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvpool_operator.api.crd import CATEGORY, KINDS, Kind, root_schema
from tests.support.kubectl import Kubectl
from tests.support.objects import group, pool, role

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("crds")]

REPOSITORY = Path(__file__).resolve().parents[2]
KIND_IDS = [kind.name for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_a_crd_is_established_without_complaint(kubectl: Kubectl, kind: Kind) -> None:
    conditions = kubectl.get_json("crd", kind.crd_name)["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_the_api_server_keeps_the_schema_as_it_was_written(kubectl: Kubectl, kind: Kind) -> None:
    written = yaml.safe_load((REPOSITORY / "crds" / f"{kind.crd_name}.yaml").read_text(encoding="utf-8"))
    (version,) = kubectl.get_json("crd", kind.crd_name)["spec"]["versions"]
    assert version == written["spec"]["versions"][0]


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_short_names_and_the_category_find_the_kind(kubectl: Kubectl, kind: Kind) -> None:
    listed = kubectl.run("api-resources", "--api-group=kvpool.dev", f"--categories={CATEGORY}", "-o", "wide")
    (line,) = [line for line in listed.splitlines() if line.startswith(f"{kind.plural} ")]
    assert line.split()[1] == kind.short


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
def test_every_field_explains_itself(kubectl: Kubectl, kind: Kind) -> None:
    for part in ("spec", "status"):
        text = kubectl.run("explain", f"{kind.name.lower()}.{part}")
        described = kubectl.run("explain", f"{kind.name.lower()}.{part}", "--output=plaintext-openapiv2")
        for name, schema in root_schema(kind)["properties"][part]["properties"].items():
            assert f"  {name}\t" in text
            assert " ".join(schema["description"].split()) in " ".join(described.split())


@pytest.mark.parametrize(
    "item, columns",
    [
        (pool(), ["NAME", "READY", "BACKEND", "SERIES", "LINK", "MEMBERS", "AGE"]),
        (group(), ["NAME", "READY", "SUMMARY", "POOL", "AGE"]),
        (role(), ["NAME", "DESIRED", "READY", "AGE"]),
    ],
    ids=KIND_IDS,
)
def test_kubectl_get_prints_the_columns(kubectl: Kubectl, namespace: str, item: dict, columns: list[str]) -> None:  # type: ignore[type-arg]
    kubectl.apply(item, namespace=namespace)
    head, row = kubectl.run("get", item["kind"], "--namespace", namespace).splitlines()
    assert head.split() == columns
    assert row.startswith(item["metadata"]["name"])
