"""Decisions about a pool: is the spec possible, what is the resolved store, and what must clients be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kvpool_connector.contract import PoolContract, parse_quantity
from kvpool_operator.api.names import master_ordinal_name
from kvpool_operator.api.pool import KVPoolSpec, MasterSpec
from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.canonical import digest
from kvpool_operator.plan.checks import Check, Violation, first_violation
from kvpool_operator.plan.facts import ObservedPool
from kvpool_operator.plan.inputs import Inputs, master_inputs
from kvpool_operator.plan.parse import parse_spec
from kvpool_operator.platform.hardware import GIB, HARDWARE, Hardware
from kvpool_operator.platform.mooncake_releases import DEFAULT_MOONCAKE_RELEASE, MOONCAKE_RELEASES, MooncakeRelease

MASTER_RPC_PORT = 50088
MASTER_ADMIN_PORT = 9003
DEFAULT_TENANT = "default"
DEFAULT_MASTER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}}


@dataclass(frozen=True, slots=True)
class ResolvedPool:
    """A valid pool with every default filled in."""

    name: str
    namespace: str
    uid: str
    spec: KVPoolSpec
    hardware: Hardware
    release: MooncakeRelease
    image: str
    contract: PoolContract


@dataclass(frozen=True, slots=True)
class MasterUnit:
    """The master as a roll unit: its inputs decide its digest, its digest names its pinned template."""

    inputs: Inputs
    digest: str
    args: tuple[str, ...]
    resources: Mapping[str, Any]
    placement: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """What to do about a pool. With a violation nothing is written and running children stay as they are."""

    violation: Violation | None
    resolved: ResolvedPool | None = None
    master: MasterUnit | None = None


def check_link(spec: KVPoolSpec) -> Violation | None:
    """A series has only the links of its hardware rows."""
    if (spec.hardware.series, spec.hardware.link) in HARDWARE:
        return None
    return Violation(
        Reason.UNSUPPORTED_HARDWARE,
        f"spec.hardware: series {spec.hardware.series} has no link {spec.hardware.link}; choose one of "
        + ", ".join(row.name for row in HARDWARE.values()),
    )


def check_release(spec: KVPoolSpec) -> Violation | None:
    """The store release is one whose flags are known: an unknown flag is a crash loop."""
    if spec.release is None or spec.release in MOONCAKE_RELEASES:
        return None
    return Violation(
        Reason.UNKNOWN_RELEASE,
        f"spec.release: {spec.release!r} is not a known Mooncake release; choose one of {', '.join(MOONCAKE_RELEASES)} "
        "and set spec.image for a build of your own",
    )


def check_alignment(spec: KVPoolSpec) -> Violation | None:
    """A segment is a whole multiple of what the hardware allocates in."""
    return segment_violation(spec, spec.segment.size, "spec.segment.size")


def segment_violation(spec: KVPoolSpec, size: str, path: str) -> Violation | None:
    """The alignment rule for any segment of this pool, a role's own among them."""
    hardware = HARDWARE[spec.hardware.series, spec.hardware.link]
    remainder = parse_quantity(size) % hardware.segment_alignment
    if remainder == 0:
        return None
    lower = parse_quantity(size) - remainder
    return Violation(
        Reason.MISALIGNED_SEGMENT,
        f"{path}: {size} is not a whole multiple of {hardware.segment_alignment} bytes, which {hardware.name} needs; "
        f"the nearest sizes are {lower or hardware.segment_alignment} and {lower + hardware.segment_alignment} bytes",
    )


def check_watermarks(spec: KVPoolSpec) -> Violation | None:
    """One eviction frees less than what fills the pool up to the watermark."""
    master = _master(spec)
    high, share = master.eviction_high_watermark_percent or 90, master.eviction_percent or 10
    if share < high:
        return None
    return Violation(
        Reason.UNSUPPORTED_COMBINATION,
        f"spec.mooncake.master.evictionPercent: {share} must be below evictionHighWatermarkPercent ({high})",
    )


POOL_CHECKS: tuple[Check[KVPoolSpec], ...] = (check_link, check_release, check_alignment, check_watermarks)


def plan_pool(observed: ObservedPool) -> PoolDecision:
    """Decide what the pool's children are; purely, from what was seen."""
    resolved = resolve_pool(observed.pool)
    if isinstance(resolved, Violation):
        return PoolDecision(violation=resolved)
    return PoolDecision(violation=None, resolved=resolved, master=_plan_master(observed.pool, resolved))


def resolve_pool(pool: Mapping[str, Any]) -> ResolvedPool | Violation:
    """The pool with defaults filled in, or the first rule it breaks. Groups call this too: one reading for all."""
    spec = parse_spec(KVPoolSpec, pool)
    if isinstance(spec, Violation):
        return spec
    if violation := first_violation(POOL_CHECKS, spec):
        return violation
    release = MOONCAKE_RELEASES[spec.release or DEFAULT_MOONCAKE_RELEASE]
    hardware = HARDWARE[spec.hardware.series, spec.hardware.link]
    meta = pool["metadata"]
    return ResolvedPool(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        spec=spec,
        hardware=hardware,
        release=release,
        image=spec.image or release.image,
        contract=_contract(spec, hardware, meta),
    )


def _contract(spec: KVPoolSpec, hardware: Hardware, meta: Mapping[str, Any]) -> PoolContract:
    identity = spec.identity
    buffer = spec.segment.local_buffer_size
    return PoolContract(
        master=f"{master_ordinal_name(meta['name'], 0)}.{meta['namespace']}.svc:{MASTER_RPC_PORT}",
        protocol=hardware.protocol,
        segment_bytes=parse_quantity(spec.segment.size),
        local_buffer_bytes=parse_quantity(buffer) if buffer else GIB,
        tenant=DEFAULT_TENANT,
        hash_seed=(identity and identity.hash_seed) or "0",
        hash_algorithm=(identity and identity.hash_algorithm) or "sha256_cbor",
        block_size=(identity and identity.block_size) or 128,
        kv_cache_dtype=(identity and identity.kv_cache_dtype) or "auto",
        key_namespace=f"{meta['uid']}/{DEFAULT_TENANT}",
    )


def _master(spec: KVPoolSpec) -> MasterSpec:
    return (spec.mooncake and spec.mooncake.master) or MasterSpec()


def _plan_master(pool: Mapping[str, Any], resolved: ResolvedPool) -> MasterUnit:
    inputs = master_inputs(pool)
    return MasterUnit(
        inputs=inputs,
        digest=digest(inputs),
        args=master_args(resolved),
        resources=_dump(_master(resolved.spec).resources) or DEFAULT_MASTER_RESOURCES,
        placement=_dump(resolved.spec.placement) or {},
    )


def _dump(model: BaseModel | None) -> dict[str, Any] | None:
    return model.model_dump(by_alias=True, exclude_none=True) if model is not None else None


def master_args(pool: ResolvedPool) -> tuple[str, ...]:
    """The master's command line (Guide 2.2.2), as flags of the release in use.

    The lease outlasts the transfer timeout in force (33 s unless set), or every key of a slow batch comes back as
    LEASE_EXPIRED; the client TTL outlasts pings that CPU binding delays.
    """
    master = _master(pool.spec)
    high, share = master.eviction_high_watermark_percent or 90, master.eviction_percent or 10
    flags = {
        "rpc_address": "0.0.0.0",
        "rpc_port": MASTER_RPC_PORT,
        "metrics_port": MASTER_ADMIN_PORT,
        "rpc_thread_num": master.rpc_threads or 4,
        "eviction_high_watermark_ratio": f"{high / 100:g}",
        "eviction_ratio": f"{share / 100:g}",
        "default_kv_lease_ttl": master.lease_milliseconds or 35_000,
        "client_ttl": master.client_ttl_seconds or 120,
        "enable_offload": "false",
    }
    return tuple(f"--{name}={value}" for name, value in flags.items() if name in pool.release.flags)
