"""Every field and every test that docs/guide-coverage.toml names exists."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kvpool_connector.contract import EngineContract, P2PLayout
from kvpool_connector.contract.mooncake import render_mooncake_json
from kvpool_connector.contract.transfer import render_kv_transfer_config
from kvpool_operator.api.crd import KINDS, root_schema
from kvpool_operator.platform.hardware import HARDWARE
from kvpool_operator.platform.mooncake_releases import MOONCAKE_RELEASES
from tools.generate.coverage import KINDS as ROW_KINDS
from tools.generate.coverage import Row, read_rows

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS = read_rows(REPOSITORY)


def _model_fields() -> Iterator[str]:
    def walk(schema: dict, path: str) -> Iterator[str]:  # type: ignore[type-arg]
        yield path
        for name, child in schema.get("properties", {}).items():
            yield from walk(child, f"{path}.{name}")
        if "items" in schema:
            yield from walk(schema["items"], f"{path}[]")

    for kind in KINDS:
        yield from walk(root_schema(kind), kind.name)


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from _keys(child)
    elif isinstance(value, list):
        for child in value:
            yield from _keys(child)


def _engine() -> EngineContract:
    """One whose renderings hold every key there is."""
    return EngineContract(
        role="Decode",
        connector="AscendStore",
        transfer="P2P",
        master="m:1",
        protocol="ascend",
        segment_bytes=1,
        local_buffer_bytes=1,
        key_namespace="n",
        load_async=True,
        decode_puts=True,
        decode_loads=True,
        p2p=P2PLayout(kv_port=1),
    )


@cache
def known_fields() -> frozenset[str]:
    """Everything a row may name."""
    engine = _engine()
    rows = HARDWARE.values()
    sources = {
        "contract": [str(field.alias) for field in EngineContract.model_fields.values()],
        "hardware": [name for row in rows for name, _ in row.env]
        + [name for row in rows for name in (*row.interface_env, *row.host_ip_env)]
        + [mount.path for row in rows for mount in row.mounts],
        "mooncake.json": _keys(json.loads(render_mooncake_json(engine))),
        "kv-transfer-config": _keys(render_kv_transfer_config(engine)),
        "master": [flag for release in MOONCAKE_RELEASES.values() for flag in release.flags],
    }
    return frozenset(_model_fields()) | {f"{source}:{name}" for source, names in sources.items() for name in names}


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Names of the test functions of a file, by its syntax."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def _id(row: Row) -> str:
    return row.term.replace(" ", "-")


@pytest.mark.parametrize("row", [row for row in ROWS if row.field], ids=_id)
def test_a_named_field_exists(row: Row) -> None:
    assert row.field in known_fields()


@pytest.mark.parametrize("row", [row for row in ROWS if row.test], ids=_id)
def test_a_named_test_exists(row: Row) -> None:
    file, _, function = row.test.partition("::")
    assert (REPOSITORY / file).is_file()
    assert function in functions_of(REPOSITORY / file)


def test_rows_are_of_known_kinds_and_no_term_stands_twice() -> None:
    assert {row.kind for row in ROWS} == set(ROW_KINDS)
    assert len({row.term for row in ROWS}) == len(ROWS)


def test_a_tested_row_names_what_carries_it() -> None:
    assert [row.term for row in ROWS if row.test and not row.field] == []
