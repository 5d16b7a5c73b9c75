"""How the Mooncake back end finds its master, and how it reads its client's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvpool_connector.backends.base import Outcome, StoreUnavailable, Transfer
from kvpool_connector.backends.mooncake import MooncakeBackend, MooncakeSettings, parse_size, read_settings

SETTINGS = MooncakeSettings("10.0.0.1", "m:1", "P2PHANDSHAKE", "tcp", "", 1, 1, False, True, "default")


@pytest.mark.parametrize(
    ("text", "size"),
    [(5, 5), ("1073741824", 1 << 30), ("1GB", 1 << 30), ("1024mb", 1 << 30), ("1.5 kb", 1536), ("7b", 7)],
)
def test_sizes_are_counted_in_1024(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["1Gi", "GB", "", "-1", True])
def test_other_units_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size(text)


def written(path: Path, **config: object) -> str:
    path.write_text(json.dumps({"master_server_address": "file:1", "protocol": "tcp", **config}), encoding="utf-8")
    return str(path)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    environ = {
        "MOONCAKE_CONFIG_PATH": written(tmp_path / "m.json", global_segment_size="1GB"),
        "MOONCAKE_MASTER": "env:2",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "64mb",
        "VLLM_HOST_IP": "10.0.0.9",
    }
    settings = read_settings(environ)
    assert (settings.master, settings.segment_bytes, settings.local_hostname) == ("env:2", 64 << 20, "10.0.0.9")
    del environ["MOONCAKE_MASTER"], environ["MOONCAKE_GLOBAL_SEGMENT_SIZE"]
    assert read_settings(environ).master == "file:1"
    assert read_settings(environ).segment_bytes == 1 << 30


@pytest.mark.parametrize("tenant", [None, "", "  "])
def test_an_empty_tenant_is_the_default_one(tmp_path: Path, tenant: str | None) -> None:
    environ = {"MOONCAKE_CONFIG_PATH": written(tmp_path / "m.json", tenant_id=tenant), "VLLM_HOST_IP": "10.0.0.9"}
    assert read_settings(environ).tenant == "default"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MOONCAKE_CONFIG_PATH"):
        read_settings({})
    with pytest.raises(ValueError, match="master_server_address"):
        read_settings({"MOONCAKE_CONFIG_PATH": written(tmp_path / "m.json", master_server_address="")})


class Client:
    """Answers with codes."""

    def __init__(self, codes: list[int]) -> None:
        self.codes = codes

    def batch_is_exist(self, keys: list[str]) -> list[int]:
        return self.codes

    def batch_put_from_multi_buffers(self, *columns: Any) -> list[int]:
        return self.codes

    def batch_get_into_multi_buffers(self, *columns: Any) -> list[int]:
        return self.codes


def backend(*codes: int) -> MooncakeBackend:
    made = MooncakeBackend(SETTINGS)
    made._store = Client(list(codes))
    return made


def test_a_read_counts_only_if_it_filled_everything() -> None:
    transfers = [Transfer(name, [1, 2], [8, 8]) for name in "abcde"]
    assert backend(16, 8, -704, -900, -800).get(transfers) == [
        Outcome.OK,
        Outcome.FAILED,
        Outcome.MISS,
        Outcome.UNREACHABLE,
        Outcome.FAILED,
    ]


def test_a_put_into_a_full_store_is_told_from_a_failure() -> None:
    assert backend(0, -200, -1701).put([Transfer("k", [1], [8])] * 3) == [Outcome.OK, Outcome.FULL, Outcome.FAILED]


def test_an_error_of_a_lookup_is_never_a_hit() -> None:
    assert backend(1, 0).exists(["a", "b"]) == [True, False]
    with pytest.raises(StoreUnavailable, match="-900"):
        backend(1, -900).exists(["a", "b"])
