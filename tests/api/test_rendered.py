"""Whole objects of every hardware row, as the builders make them: the API server takes each under strict validation."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.admission import Admission

pytestmark = pytest.mark.api

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "unit" / "operator" / "golden").glob("*.yaml"))


def test_there_are_rendered_objects() -> None:
    assert len(GOLDEN) > 10


@pytest.fixture(scope="module")
def admission(control_plane: Path, crds: None) -> Admission:
    return Admission(control_plane)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_rendered_objects_are_accepted(admission: Admission, path: Path) -> None:
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert objects
    verdicts = {f"{item['kind']} {item['metadata']['name']}": admission.verdict(item) for item in objects}
    assert {name: verdict for name, verdict in verdicts.items() if verdict} == {}
