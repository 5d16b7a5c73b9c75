"""What one role's engines run: contract, arguments, variables, devices and memory. Values only; build/ makes pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvpool_connector.contract import EngineContract, P2PLayout, parse_quantity
from kvpool_operator.api.base import EnvVar
from kvpool_operator.api.group import InferenceGroupSpec, RoleSpec
from kvpool_operator.plan.facts import Defaults
from kvpool_operator.plan.group_checks import connector_of, role_devices, transfer_of
from kvpool_operator.plan.pool import ResolvedPool

DEFAULT_ENGINE_PORT = 8000
DEFAULT_DRAIN_SECONDS = 600
POD_INTERFACE = "eth0"
"""The pod network's interface in every pod."""
_FIRST_TRANSFER_PORT = 20_000
_TRANSFER_PORTS_PER_DEVICE = 1_000


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One role's engines; everything that reaches the pod template, and nothing else."""

    image: str
    image_pull_policy: str | None
    image_pull_secrets: tuple[str, ...]
    carrier_image: str
    carrier_pull_policy: str | None
    args: tuple[str, ...]
    env: tuple[Mapping[str, Any], ...]
    port: int
    devices: Mapping[str, int]
    pool_memory: int
    """Bytes that the ranks of one pod give to the pool and to its buffers."""
    shared_memory: int
    resources: Mapping[str, Any]
    placement: Mapping[str, Any]
    model_source: Mapping[str, Any]
    model_path: str
    drain_seconds: int


def plan_engine(spec: InferenceGroupSpec, role: RoleSpec, pool: ResolvedPool, defaults: Defaults) -> EnginePlan:
    """The engines of one role."""
    contract = engine_contract(spec, role, pool)
    hardware = pool.hardware
    devices = role_devices(role)
    resource = pool.spec.hardware.resource_name or hardware.resource_name
    buffer = contract.local_buffer_bytes if hardware.uses_local_buffer else 0
    return EnginePlan(
        image=role.image or spec.engine.image,
        image_pull_policy=spec.engine.image_pull_policy,
        image_pull_secrets=tuple(secret.name for secret in spec.engine.image_pull_secrets or []),
        carrier_image=defaults.connector_image,
        carrier_pull_policy=defaults.image_pull_policy,
        args=_args(spec, role),
        env=_env(spec, role, pool, contract),
        port=spec.engine.port or DEFAULT_ENGINE_PORT,
        devices={resource: devices} if resource else {},
        pool_memory=devices * (contract.segment_bytes + buffer),
        shared_memory=hardware.shared_memory,
        resources=role.resources.model_dump(by_alias=True, exclude_none=True) if role.resources else {},
        placement=role.placement.model_dump(by_alias=True, exclude_none=True) if role.placement else {},
        model_source=spec.model.source.model_dump(by_alias=True, exclude_none=True),
        model_path=spec.model.path,
        drain_seconds=_drain_seconds(spec),
    )


def _drain_seconds(spec: InferenceGroupSpec) -> int:
    seconds = spec.rollout.drain_seconds if spec.rollout else None
    return DEFAULT_DRAIN_SECONDS if seconds is None else seconds


def engine_contract(spec: InferenceGroupSpec, role: RoleSpec, pool: ResolvedPool) -> EngineContract:
    """The pool's contract and this role's part in it."""
    kv = spec.kv
    shared = pool.contract.model_dump()
    if role.segment_size:
        shared["segment_bytes"] = parse_quantity(role.segment_size)
    transfer = transfer_of(spec, pool)
    hybrid = spec.model.attention == "Hybrid"
    return EngineContract.model_validate(
        {
            **shared,
            "role": role.type,
            "connector": connector_of(spec, pool),
            "transfer": transfer,
            "load_failure_policy": (kv and kv.load_failure_policy) or ("Fail" if hybrid else "Recompute"),
            "load_async": bool(kv and kv.load_async),
            "decode_puts": bool(kv and kv.decode_puts),
            "decode_loads": bool(kv and kv.decode_loads),
            "model_revision": spec.model.revision or "",
            "p2p": _p2p(spec, pool) if transfer == "P2P" and role.type != "Mixed" else None,
        }
    )


def _p2p(spec: InferenceGroupSpec, pool: ResolvedPool) -> P2PLayout:
    """Both roles' sizes, equal on both sides, and a port above those that the transfer engine takes for itself."""
    sizes = {role.type: role.parallelism for role in spec.roles}
    prefill, decode = sizes["Prefill"], sizes["Decode"]
    return P2PLayout(
        kv_port=_FIRST_TRANSFER_PORT + _TRANSFER_PORTS_PER_DEVICE * pool.hardware.devices_per_node,
        prefill_tp=(prefill and prefill.tensor) or 1,
        prefill_dp=(prefill and prefill.data) or 1,
        decode_tp=(decode and decode.tensor) or 1,
        decode_dp=(decode and decode.data) or 1,
    )


def _args(spec: InferenceGroupSpec, role: RoleSpec) -> tuple[str, ...]:
    parallelism = role.parallelism
    return (
        "--model",
        spec.model.path,
        "--served-model-name",
        spec.model.served_name,
        "--port",
        str(spec.engine.port or DEFAULT_ENGINE_PORT),
        "--tensor-parallel-size",
        str((parallelism and parallelism.tensor) or 1),
        "--data-parallel-size",
        str((parallelism and parallelism.data) or 1),
        *(spec.engine.args or []),
        *(role.args or []),
    )


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _env(
    spec: InferenceGroupSpec, role: RoleSpec, pool: ResolvedPool, contract: EngineContract
) -> tuple[Mapping[str, Any], ...]:
    """Ours first, so that the user's may refer to them by $(NAME); then the engine's, then the role's own."""
    hardware = pool.hardware
    managed: list[dict[str, Any]] = [
        _field("POD_NAME", "metadata.name"),
        _field("POD_NAMESPACE", "metadata.namespace"),
        _field("POD_IP", "status.podIP"),
        _field("NODE_NAME", "spec.nodeName"),
        _field("VLLM_HOST_IP", "status.podIP"),
        *({"name": name, "value": value} for name, value in contract.to_environ().items()),
        *({"name": name, "value": value} for name, value in hardware.env),
        *({"name": name, "value": POD_INTERFACE} for name in hardware.interface_env),
        *(_field(name, "status.podIP") for name in hardware.host_ip_env),
    ]
    theirs: dict[str, dict[str, Any]] = {
        variable.name: _variable(variable) for variable in [*(spec.engine.env or []), *(role.env or [])]
    }
    return (*managed, *theirs.values())


def _variable(variable: EnvVar) -> dict[str, Any]:
    return variable.model_dump(by_alias=True, exclude_none=True)
