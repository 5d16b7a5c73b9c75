"""Keys: their exact form, and that every fact in the namespace matters."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from kvpool_connector.keys import KeySpace, Namespace, whole_prefix

NAMESPACE = Namespace(
    namespace="3f6c/default",
    model="Qwen3-32B",
    revision="main",
    weights="aa",
    dtype="torch.bfloat16",
    kv_cache_dtype="auto",
    quantization="",
    layout=("torch.bfloat16(8, 128, 256)",),
    layers=64,
    block_size=128,
    tensor_parallel=8,
    kv_heads=8,
    pipeline_parallel=1,
    pipeline_partition="",
    hash_algorithm="sha256_cbor",
    hash_seed="0",
    device="npu",
)


def test_a_key_never_changes_by_accident() -> None:
    # Another key for the same facts empties every pool that is in use: change FORMAT knowingly instead.
    key = KeySpace.of(NAMESPACE, heads=8).key(bytes(range(32)), stage=0, head=3)
    assert key == (
        "v1/Qwen3-32B/d7420b79bd89de6991008636e22c5bf2/0/3/"
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Namespace)])
def test_every_fact_makes_another_namespace(name: str) -> None:
    value: Any = getattr(NAMESPACE, name)
    other: Any = ("x",) if isinstance(value, tuple) else value + 1 if isinstance(value, int) else f"{value}x"
    assert replace(NAMESPACE, **{name: other}).digest() != NAMESPACE.digest()


@pytest.mark.parametrize("model", ["a" * 300, "模型", "Qwen/Qwen3", "", "a b!c"])
def test_keys_are_short_ascii_whatever_the_model_is_called(model: str) -> None:
    key = KeySpace.of(replace(NAMESPACE, model=model), heads=1).key(b"\xff" * 32, 0, 0)
    assert len(key) < 256
    assert re.fullmatch(r"v1/[A-Za-z0-9_.-]+/[0-9a-f]{32}/0/0/[0-9a-f]{64}", key)


def test_a_block_has_one_part_for_each_stage_and_head_rank() -> None:
    keys = KeySpace("m", "d", stages=2, heads=3)
    assert len(set(keys.parts(b"\x01"))) == 6
    assert keys.parts(b"\x01")[0] == keys.key(b"\x01", 0, 0)


@pytest.mark.parametrize(
    ("present", "parts", "blocks"),
    [([], 1, 0), ([True, True, False, True], 1, 2), ([True, True, True, False], 2, 1), ([False, True], 2, 0)],
)
def test_a_prefix_ends_at_the_first_block_that_lacks_a_part(present: list[bool], parts: int, blocks: int) -> None:
    assert whole_prefix(present, parts) == blocks
