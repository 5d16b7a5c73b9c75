"""Whole objects of every hardware row, as the builders make them: the API server takes each under strict validation."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.kubectl import Kubectl

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("crds")]

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "unit" / "operator" / "golden").glob("*.yaml"))


def test_there_are_rendered_objects() -> None:
    assert len(GOLDEN) > 10


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_rendered_objects_are_accepted(kubectl: Kubectl, path: Path) -> None:
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for item in objects:
        item["metadata"]["namespace"] = "default"  # a dry run stores nothing
    assert len(kubectl.apply(*objects, dry_run=True).splitlines()) == len(objects)
