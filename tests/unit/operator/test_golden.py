"""Whole objects of each hardware row, as they reach the API server; the api tier has the API server accept the files.

`KVPOOL_UPDATE_GOLDEN=1 pytest tests/unit/operator/test_golden.py` writes them anew; read the difference before you
commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from kvpool_operator.platform.hardware import HARDWARE, Hardware
from tests.support.live import built_group, built_pool
from tests.support.objects import Object, group, mixed_group, pool

FOLDER = Path(__file__).parent / "golden"
UPDATE = "KVPOOL_UPDATE_GOLDEN" in os.environ


def _pool(row: Hardware) -> Object:
    return pool(hardware={"series": row.series, "link": row.link}, segment={"size": "20Gi"})


def _engine(row: Hardware) -> dict[str, str]:
    return {"image": "engine:1", "release": "0.23.0" if row.protocol == "ascend" else "0.32.0"}


def _cases() -> list[tuple[str, list[Object]]]:
    cases: list[tuple[str, list[Object]]] = [("pool", list(built_pool(pool())[1].children))]
    for row in HARDWARE.values():
        split = [
            {"name": "prefill", "type": "Prefill", "parallelism": {"tensor": 8}},
            {"name": "decode", "type": "Decode", "parallelism": {"tensor": 8}},
        ]
        one = [{"name": "mixed", "type": "Mixed", "parallelism": {"tensor": 8}}]
        for name, obj in (
            ("split", group(engine=_engine(row), roles=split)),
            ("mixed", mixed_group(engine=_engine(row), roles=one)),
        ):
            built = built_group(obj, _pool(row))[1]
            kept = [c for c in (*built.roles, *built.children) if c["kind"] != "ControllerRevision"]
            cases.append((f"{row.series}-{row.link}-{name}".lower(), kept))
    return cases


@pytest.mark.parametrize("name, objects", _cases(), ids=[name for name, _ in _cases()])
def test_rendered_objects_are_as_reviewed(name: str, objects: list[Object]) -> None:
    path = FOLDER / f"{name}.yaml"
    if UPDATE:
        path.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=120))
    assert list(yaml.safe_load_all(path.read_text())) == objects
