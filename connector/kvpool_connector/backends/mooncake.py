"""Mooncake's client as a back end, over TCP on CPU and over Ascend's transport on NPUs.

The file named by MOONCAKE_CONFIG_PATH is read as vllm-ascend reads it, MOONCAKE_MASTER and
MOONCAKE_GLOBAL_SEGMENT_SIZE before it. Optional arguments are passed only where the installed client knows them.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvpool_connector.backends.base import Outcome, StoreUnavailable, Transfer
from kvpool_connector.segments import Region

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(gb|mb|kb|b)?\s*", re.IGNORECASE)
_UNITS = {"gb": 1 << 30, "mb": 1 << 20, "kb": 1 << 10, "b": 1}
_GIB = 1 << 30

# What the client's codes mean to a cache. A code that is not here is a failure of that key alone.
_OUTCOMES = {
    0: Outcome.OK,
    -200: Outcome.FULL,  # NO_AVAILABLE_HANDLE: no segment has room
    -704: Outcome.MISS,  # OBJECT_NOT_FOUND
    -707: Outcome.MISS,  # LEASE_EXPIRED: evicted while being read
    -900: Outcome.UNREACHABLE,  # RPC_FAIL
    -901: Outcome.UNREACHABLE,  # RPC_TIMEOUT
    -1700: Outcome.FULL,  # TENANT_QUOTA_EXCEEDED
}


@dataclass(frozen=True)
class MooncakeSettings:
    """What a client needs to join."""

    local_hostname: str
    master: str
    metadata_server: str
    protocol: str
    device_name: str
    segment_bytes: int
    local_buffer_bytes: int
    preferred_segment: bool
    prefer_same_node: bool
    tenant: str


def parse_size(value: object) -> int:
    """Bytes of a size as Mooncake's configuration writes it: a number, with gb, mb, kb or b or without."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(str(value))
    if not found:
        raise ValueError(f"{value!r} is no size: write bytes, or a number with gb, mb, kb or b")
    return int(float(found[1]) * _UNITS[(found[2] or "b").lower()])


def read_settings(environ: Mapping[str, str] | None = None) -> MooncakeSettings:
    """The settings of this process. Raises ValueError that names what is missing."""
    environ = os.environ if environ is None else environ
    path = environ.get("MOONCAKE_CONFIG_PATH")
    if not path:
        raise ValueError("The environment variable 'MOONCAKE_CONFIG_PATH' is not set.")
    try:
        with open(path, encoding="utf-8") as file:
            config: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"MOONCAKE_CONFIG_PATH={path}: {error}") from error
    master = environ.get("MOONCAKE_MASTER") or config.get("master_server_address")
    if not master:
        raise ValueError(f"{path}: master_server_address is missing and MOONCAKE_MASTER is not set")
    segment = environ.get("MOONCAKE_GLOBAL_SEGMENT_SIZE") or config.get("global_segment_size", _GIB)
    return MooncakeSettings(
        local_hostname=environ.get("VLLM_HOST_IP") or socket.gethostbyname(socket.gethostname()),
        master=str(master),
        metadata_server=str(config.get("metadata_server", "P2PHANDSHAKE")),
        protocol=str(config.get("protocol", "ascend")),
        device_name=str(config.get("device_name", "")),
        segment_bytes=parse_size(segment),
        local_buffer_bytes=parse_size(config.get("local_buffer_size", _GIB)),
        preferred_segment=bool(config.get("preferred_segment", False)),
        prefer_same_node=bool(config.get("prefer_alloc_in_same_node", True)),
        tenant=str(config.get("tenant_id") or "").strip() or "default",
    )


class MooncakeBackend:
    """One client, which contributes a segment and moves blocks without a copy in between."""

    name = "mooncake"

    def __init__(self, settings: MooncakeSettings) -> None:
        self._settings = settings
        self._store: Any = None
        self._replicate: Any = None

    def setup(self, regions: Sequence[Region]) -> None:
        """Join the master and register the KV caches."""
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig

        # The client's own 20 attempts take 90 s; the caller tries again by itself.
        os.environ.setdefault("MC_STORE_CLIENT_SETUP_RETRIES", "3")
        store = MooncakeDistributedStore()
        fabric = self._settings.protocol == "ascend" and os.environ.get("ASCEND_ENABLE_USE_FABRIC_MEM") == "1"
        code = store.setup(*self._arguments(fabric), **self._optional(store))
        if code != 0:
            store.close()
            raise StoreUnavailable(f"Mooncake master {self._settings.master}: setup failed with code {code}")
        if not fabric:
            for region in regions:
                if (code := store.register_buffer(region.base, region.length)) != 0:
                    store.close()
                    raise StoreUnavailable(f"registering {region.length} bytes of KV cache failed with code {code}")
        self._replicate = self._replication(store, ReplicateConfig())
        self._store = store

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys can be read."""
        codes = self._client().batch_is_exist(list(keys))
        if any(code < 0 for code in codes):
            raise StoreUnavailable(f"Mooncake master {self._settings.master}: look-up failed with code {min(codes)}")
        return [code == 1 for code in codes]

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Store objects straight from the KV cache."""
        codes = self._client().batch_put_from_multi_buffers(*_columns(transfers), self._replicate)
        return [_OUTCOMES.get(code, Outcome.FAILED) for code in codes]

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Fill the KV cache straight from objects."""
        codes = self._client().batch_get_into_multi_buffers(*_columns(transfers))
        return [
            _OUTCOMES.get(code, Outcome.FAILED) if code < 0 else _complete(code, transfer)
            for code, transfer in zip(codes, transfers, strict=True)
        ]

    def health(self) -> bool:
        """Ask the master: the client's own health check does not notice that it is gone."""
        return bool(self._client().is_exist("kvpool/health") >= 0)

    def remove(self, keys: Sequence[str]) -> None:
        """Forget objects."""
        for key in keys:
            self._client().remove(key)

    def close(self) -> None:
        """Unmount the segment."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _client(self) -> Any:
        if self._store is None:
            raise StoreUnavailable("not joined")
        return self._store

    def _arguments(self, fabric: bool) -> tuple[object, ...]:
        settings = self._settings
        buffer_bytes = 0 if fabric else settings.local_buffer_bytes
        device = settings.device_name
        hosts = (settings.local_hostname, settings.metadata_server, settings.segment_bytes, buffer_bytes)
        return (*hosts, settings.protocol, device, settings.master)

    def _optional(self, store: Any) -> dict[str, object]:
        documented = store.setup.__doc__ or ""
        if self._settings.tenant == "default":
            return {}
        if "tenant_id" not in documented:
            raise ValueError(f"tenant {self._settings.tenant!r} needs a Mooncake client of 0.3.12 or later")
        return {"tenant_id": self._settings.tenant}

    def _replication(self, store: Any, config: Any) -> Any:
        if self._settings.preferred_segment:
            config.preferred_segment = store.get_hostname()
        if hasattr(config, "prefer_alloc_in_same_node"):
            config.prefer_alloc_in_same_node = self._settings.prefer_same_node
        return config


def _columns(transfers: Sequence[Transfer]) -> tuple[list[str], list[list[int]], list[list[int]]]:
    return [t.key for t in transfers], [t.addresses for t in transfers], [t.sizes for t in transfers]


def _complete(read: int, transfer: Transfer) -> Outcome:
    """A read is good only if it filled everything; 0 means success in clients that do not count bytes."""
    return Outcome.OK if read in (0, sum(transfer.sizes)) else Outcome.FAILED
