"""The rules of a group that need more than one object, or a table, to be checked. CEL has the rest at admission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvpool_connector.contract import EngineContract
from kvpool_operator.api.base import EnvVar
from kvpool_operator.api.group import InferenceGroupSpec, RoleSpec
from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.checks import Check, Violation
from kvpool_operator.plan.pool import ResolvedPool, segment_violation
from kvpool_operator.platform.engine_releases import ENGINE_RELEASES
from kvpool_operator.platform.hardware import managed_env_names

MANAGED_ENV = frozenset(str(field.alias) for field in EngineContract.model_fields.values()) | managed_env_names()
"""Variables whose value the pool or the hardware decides."""

MANAGED_ARGS: Mapping[str, str] = {
    "--kv-transfer-config": "spec.kv",
    "--model": "spec.model.path",
    "--served-model-name": "spec.model.servedName",
    "--port": "spec.engine.port",
    "--tensor-parallel-size": "roles[].parallelism.tensor",
    "-tp": "roles[].parallelism.tensor",
    "--data-parallel-size": "roles[].parallelism.data",
    "-dp": "roles[].parallelism.data",
    "--block-size": "the pool's spec.identity.blockSize",
    "--kv-cache-dtype": "the pool's spec.identity.kvCacheDtype",
    "--prefix-caching-hash-algo": "the pool's spec.identity.hashAlgorithm",
}
"""Engine arguments that the operator renders, and the field that decides each."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the checks look at."""

    namespace: str
    spec: InferenceGroupSpec
    pool: ResolvedPool
    namespace_labels: Mapping[str, str] | None


def role_devices(role: RoleSpec) -> int:
    """Devices of one replica: one per rank."""
    parallelism = role.parallelism
    return ((parallelism and parallelism.tensor) or 1) * ((parallelism and parallelism.data) or 1)


def connector_of(spec: InferenceGroupSpec, pool: ResolvedPool) -> str:
    """The connector in use: the spec's, else the hardware's."""
    return spec.engine.connector or pool.hardware.default_connector


def transfer_of(spec: InferenceGroupSpec, pool: ResolvedPool) -> str:
    """How prefill hands over: the spec's word, else P2P where vllm-ascend's connectors are used."""
    named = spec.kv and spec.kv.transfer
    return named or ("P2P" if connector_of(spec, pool) == "AscendStore" else "Pool")


def check_namespace(facts: GroupFacts) -> Violation | None:
    """The pool allows the group's namespace."""
    allowed = facts.pool.spec.allowed_namespaces
    kind = allowed.from_ if allowed else "Same"
    if facts.namespace == facts.pool.namespace or kind == "All":
        return None
    wanted = (allowed and allowed.selector and allowed.selector.match_labels) or {}
    labels = facts.namespace_labels
    if kind == "Selector" and labels is not None and all(labels.get(key) == value for key, value in wanted.items()):
        return None
    return Violation(
        Reason.NAMESPACE_NOT_ALLOWED,
        f"spec.poolRef: pool {facts.pool.namespace}/{facts.pool.name} does not allow namespace {facts.namespace} "
        f"(allowedNamespaces.from is {kind}); its owner can allow it there",
    )


def check_release(facts: GroupFacts) -> Violation | None:
    """The engine release is in the table, and exists for the hardware."""
    release = ENGINE_RELEASES.get(facts.spec.engine.release)
    if release is None:
        return Violation(
            Reason.UNKNOWN_RELEASE,
            f"spec.engine.release: {facts.spec.engine.release!r} is not known; "
            f"choose one of {', '.join(ENGINE_RELEASES)}",
        )
    if facts.pool.hardware.protocol == "ascend" and not release.ascend:
        return Violation(
            Reason.UNKNOWN_RELEASE,
            f"spec.engine.release: there is no vllm-ascend {release.version}, which {facts.pool.hardware.name} needs; "
            f"choose one of {', '.join(v for v, row in ENGINE_RELEASES.items() if row.ascend)}",
        )
    return None


def check_connector(facts: GroupFacts) -> Violation | None:
    """The connector exists in the engine release and on the hardware."""
    name, release = connector_of(facts.spec, facts.pool), ENGINE_RELEASES[facts.spec.engine.release]
    if name not in release.connectors:
        return Violation(
            Reason.CONNECTOR_UNSUPPORTED,
            f"spec.engine.connector: {name} does not exist in release {release.version}; "
            f"use {' or '.join(sorted(release.connectors))}",
        )
    if name == "AscendStore" and facts.pool.hardware.protocol != "ascend":
        return Violation(
            Reason.CONNECTOR_UNSUPPORTED,
            f"spec.engine.connector: AscendStore needs NPUs and the pool is {facts.pool.hardware.name}; use Native",
        )
    return None


def check_transfer(facts: GroupFacts) -> Violation | None:
    """P2P runs on vllm-ascend's own connector between NPUs; Native hands over through the pool."""
    if transfer_of(facts.spec, facts.pool) == "P2P" and connector_of(facts.spec, facts.pool) == "Native":
        return Violation(
            Reason.UNSUPPORTED_COMBINATION,
            "spec.kv.transfer: P2P goes with engine.connector AscendStore; use Pool with Native",
        )
    return None


def check_tensor_sizes(facts: GroupFacts) -> Violation | None:
    """Prefill's tensor size is a multiple of decode's for P2P, and equal to it for Pool: keys name the split."""
    by_type = {role.type: role for role in facts.spec.roles}
    if "Prefill" not in by_type:
        return None
    prefill, decode = (_tensor(by_type[kind]) for kind in ("Prefill", "Decode"))
    if transfer_of(facts.spec, facts.pool) == "Pool" and prefill != decode:
        return Violation(
            Reason.UNSUPPORTED_COMBINATION,
            f"spec.roles: tensor sizes {prefill} (prefill) and {decode} (decode) differ, so decode would never find "
            "what prefill saved; make them equal or use kv.transfer P2P",
        )
    if prefill < decode:
        return Violation(
            Reason.UNSUPPORTED_COMBINATION,
            f"spec.roles: prefill's tensor size {prefill} is below decode's {decode}; MooncakeConnectorV1 refuses that",
        )
    return None


def _tensor(role: RoleSpec) -> int:
    return (role.parallelism and role.parallelism.tensor) or 1


def check_devices(facts: GroupFacts) -> Violation | None:
    """One replica fits a node."""
    limit = facts.pool.hardware.devices_per_node
    if facts.pool.hardware.resource_name is None:
        return None
    for role in facts.spec.roles:
        if role_devices(role) > limit:
            return Violation(
                Reason.UNSUPPORTED_COMBINATION,
                f"spec.roles[{role.name}].parallelism: {role_devices(role)} devices in one replica, but a node of "
                f"{facts.pool.hardware.name} has {limit}",
            )
    return None


def check_role_segments(facts: GroupFacts) -> Violation | None:
    """A role's own segment obeys the pool's alignment."""
    for role in facts.spec.roles:
        path = f"spec.roles[{role.name}].segmentSize"
        if role.segment_size and (violation := segment_violation(facts.pool.spec, role.segment_size, path)):
            return violation
    return None


def _user_env(spec: InferenceGroupSpec) -> Iterator[tuple[str, EnvVar]]:
    for variable in spec.engine.env or []:
        yield "spec.engine.env", variable
    for role in spec.roles:
        for variable in role.env or []:
            yield f"spec.roles[{role.name}].env", variable


def check_env(facts: GroupFacts) -> Violation | None:
    """No variable that the pool or the hardware decides is set by hand: a differing hash seed means no hit, ever."""
    for path, variable in _user_env(facts.spec):
        if variable.name in MANAGED_ENV:
            return Violation(
                Reason.MANAGED_ENV,
                f"{path}: {variable.name} comes from the pool or the hardware; remove it here",
            )
    return None


def check_args(facts: GroupFacts) -> Violation | None:
    """No argument that the operator renders is given a second time."""
    lists = [
        ("spec.engine.args", facts.spec.engine.args),
        *((f"spec.roles[{r.name}].args", r.args) for r in facts.spec.roles),
    ]
    for path, args in lists:
        for arg in args or []:
            if (name := arg.split("=", 1)[0]) in MANAGED_ARGS:
                return Violation(
                    Reason.MANAGED_ARGUMENT, f"{path}: {name} is rendered from {MANAGED_ARGS[name]}; set it there"
                )
    return None


GROUP_CHECKS: tuple[Check[GroupFacts], ...] = (
    check_namespace,
    check_release,
    check_connector,
    check_transfer,
    check_tensor_sizes,
    check_devices,
    check_role_segments,
    check_env,
    check_args,
)
