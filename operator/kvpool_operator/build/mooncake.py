"""The children of a Mooncake pool: the master, its addresses, and the contract for workloads of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.names import (
    COMPONENT_LABEL,
    POOL_LABEL,
    client_config_name,
    master_name,
    master_ordinal_name,
)
from kvpool_operator.build.meta import Owner, owned, standard_labels
from kvpool_operator.build.pod import compact, pull_secrets, unprivileged
from kvpool_operator.build.revision import pin_template
from kvpool_operator.plan.facts import ObservedPool
from kvpool_operator.plan.pool import MASTER_ADMIN_PORT, MASTER_RPC_PORT, MasterUnit, PoolDecision, ResolvedPool

COMPONENT = "master"
_PORTS = (("rpc", MASTER_RPC_PORT), ("metrics", MASTER_ADMIN_PORT))


@dataclass(frozen=True, slots=True)
class BuiltPool:
    """All children, in the order in which they are written, and which of them a new operator would render anew."""

    children: tuple[dict[str, Any], ...]
    outdated: tuple[str, ...]


def build_pool(observed: ObservedPool, decision: PoolDecision) -> BuiltPool:
    """The objects of a pool whose spec is valid."""
    if decision.resolved is None or decision.master is None:
        raise ValueError("a pool with a violation has nothing to build")
    owner = Owner.of("KVPool", observed.pool, POOL_LABEL)
    pinned = pin_template(
        owner,
        COMPONENT,
        decision.master.digest,
        decision.master.inputs,
        render_master_template(owner, decision.resolved, decision.master),
        observed.children,
    )
    return BuiltPool(
        children=(
            pinned.revision,
            _client_config(owner, decision.resolved),
            _governing_service(owner),
            _ordinal_service(owner),
            _stateful_set(owner, pinned.template),
        ),
        outdated=(COMPONENT,) if pinned.outdated else (),
    )


def _selector(owner: Owner) -> dict[str, str]:
    return {owner.label: owner.name, COMPONENT_LABEL: COMPONENT}


def render_master_template(owner: Owner, pool: ResolvedPool, unit: MasterUnit) -> dict[str, Any]:
    """Pod template of the master.

    Ready means the RPC port listens: `/health` answers 200 in every state, and only a master that serves opens the
    port. Alive means the HTTP port answers at all.
    """
    container = compact(
        {
            "name": "master",
            "image": pool.image,
            "imagePullPolicy": pool.spec.image_pull_policy,
            "command": ["mooncake_master"],
            "args": list(unit.args),
            "ports": [{"name": name, "containerPort": port} for name, port in _PORTS],
            "readinessProbe": {"tcpSocket": {"port": "rpc"}, "periodSeconds": 2},
            "livenessProbe": {
                "httpGet": {"path": "/health", "port": "metrics"},
                "periodSeconds": 10,
                "failureThreshold": 6,
            },
            "resources": dict(unit.resources),
            "securityContext": unprivileged(),
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
    )
    spec = compact(
        {
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 10,
            "imagePullSecrets": pull_secrets(secret.name for secret in pool.spec.image_pull_secrets or []),
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
            **unit.placement,
        }
    )
    return {"metadata": {"labels": standard_labels(owner, COMPONENT)}, "spec": spec}


def _stateful_set(owner: Owner, template: dict[str, Any]) -> dict[str, Any]:
    return owned(
        owner,
        "apps/v1",
        "StatefulSet",
        master_name(owner.name),
        COMPONENT,
        {
            "spec": {
                "replicas": 1,
                "serviceName": master_name(owner.name),
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": _selector(owner)},
                "template": template,
            }
        },
    )


def _service_ports() -> list[dict[str, Any]]:
    return [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in _PORTS]


def _governing_service(owner: Owner) -> dict[str, Any]:
    return owned(
        owner,
        "v1",
        "Service",
        master_name(owner.name),
        COMPONENT,
        {
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": _selector(owner),
                "ports": _service_ports(),
            }
        },
    )


def _ordinal_service(owner: Owner) -> dict[str, Any]:
    """A ClusterIP outlives the pod: without an endpoint it refuses at once, where a dead pod IP hangs for minutes."""
    name = master_ordinal_name(owner.name, 0)
    return owned(
        owner,
        "v1",
        "Service",
        name,
        COMPONENT,
        {
            "spec": {
                "selector": {**_selector(owner), "statefulset.kubernetes.io/pod-name": name},
                "ports": _service_ports(),
            }
        },
    )


def _client_config(owner: Owner, pool: ResolvedPool) -> dict[str, Any]:
    return owned(
        owner,
        "v1",
        "ConfigMap",
        client_config_name(owner.name),
        "client",
        {"data": pool.contract.to_environ()},
    )
