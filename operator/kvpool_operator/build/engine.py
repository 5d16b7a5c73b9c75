"""Engine pods: the carrier brings the launcher, the launcher brings the configuration, vLLM does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvpool_connector.contract import format_quantity
from kvpool_operator.api.names import (
    COMPONENT_LABEL,
    PAIRING_LABEL,
    ROLE_LABEL,
    ROLE_TYPE_LABEL,
    SLOT_LABEL,
    engine_name,
)
from kvpool_operator.build.meta import Owner, owned, standard_labels
from kvpool_operator.build.pod import compact, pull_secrets, unprivileged
from kvpool_operator.plan.engine import EnginePlan
from kvpool_operator.plan.group import RolePlan
from kvpool_operator.platform.hardware import Hardware

COMPONENT = "engine"
CARRIER_FOLDER = "/kvpool"
LAUNCHER = f"{CARRIER_FOLDER}/kvpool_launch.py"
_STARTUP_SECONDS = 3600
"""Loading weights and reserving huge segments takes many minutes; a broken start shows in the launcher's own line."""
_DRAIN_MARGIN_SECONDS = 45
"""vLLM ends its workers and the store client unmounts its segment within this, after preStop."""


def engine_labels(role: RolePlan, pairing: str) -> dict[str, str]:
    """What the router needs to know of a target; Service labels are mirrored to its EndpointSlices."""
    return {
        ROLE_LABEL: role.spec.name,
        ROLE_TYPE_LABEL: role.spec.type,
        PAIRING_LABEL: pairing,
        SLOT_LABEL: "0",
    }


def _selector(owner: Owner, role: RolePlan, pairing: str) -> dict[str, str]:
    return {
        owner.label: owner.name,
        COMPONENT_LABEL: COMPONENT,
        ROLE_LABEL: role.spec.name,
        PAIRING_LABEL: pairing,
    }


def build_engine_deployment(
    owner: Owner, role: RolePlan, pairing: str, template: Mapping[str, Any], rolling: Mapping[str, int]
) -> dict[str, Any]:
    """The Deployment of one role in one pairing revision."""
    return owned(
        owner,
        "apps/v1",
        "Deployment",
        engine_name(owner.name, role.spec.name, pairing),
        COMPONENT,
        {
            "spec": {
                "replicas": role.replicas,
                "selector": {"matchLabels": _selector(owner, role, pairing)},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": dict(rolling)},
                "progressDeadlineSeconds": _STARTUP_SECONDS + 600,
                "template": dict(template),
            }
        },
        labels=engine_labels(role, pairing),
    )


def build_engine_service(owner: Owner, role: RolePlan, pairing: str) -> dict[str, Any]:
    """Headless Service of that Deployment, with ready pods only: a target leaves the slices when it turns NotReady."""
    return owned(
        owner,
        "v1",
        "Service",
        engine_name(owner.name, role.spec.name, pairing),
        COMPONENT,
        {
            "spec": {
                "clusterIP": "None",
                "selector": _selector(owner, role, pairing),
                "ports": [
                    {"name": "api-0", "port": role.engine.port, "targetPort": role.engine.port, "protocol": "TCP"}
                ],
            }
        },
        labels=engine_labels(role, pairing),
    )


def render_engine_template(owner: Owner, role: RolePlan, pairing: str, hardware: Hardware) -> dict[str, Any]:
    """Pod template of one role's engines."""
    engine = role.engine
    spec = compact(
        {
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": engine.drain_seconds + _DRAIN_MARGIN_SECONDS,
            "imagePullSecrets": pull_secrets(engine.image_pull_secrets),
            "initContainers": [_carrier(engine)],
            "containers": [_engine_container(engine, hardware)],
            "volumes": _volumes(engine, hardware),
            **engine.placement,
        }
    )
    labels = {**standard_labels(owner, COMPONENT), **engine_labels(role, pairing)}
    return {"metadata": {"labels": labels}, "spec": spec}


def _carrier(engine: EnginePlan) -> dict[str, Any]:
    return compact(
        {
            "name": "carrier",
            "image": engine.carrier_image,
            "imagePullPolicy": engine.carrier_pull_policy,
            "command": ["cp", "-r", "/opt/kvpool/.", CARRIER_FOLDER],
            "securityContext": unprivileged(),
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "volumeMounts": [{"name": "kvpool", "mountPath": CARRIER_FOLDER}],
        }
    )


def _engine_container(engine: EnginePlan, hardware: Hardware) -> dict[str, Any]:
    """The launcher is started as a script, so that the image's own PYTHONPATH stays what it is."""
    health = {"path": "/health", "port": "api-0"}
    return compact(
        {
            "name": "engine",
            "image": engine.image,
            "imagePullPolicy": engine.image_pull_policy,
            "command": ["python3", LAUNCHER, "--"],
            "args": list(engine.args),
            "env": [dict(variable) for variable in engine.env],
            "ports": [{"name": "api-0", "containerPort": engine.port}],
            "startupProbe": {"httpGet": health, "periodSeconds": 2, "failureThreshold": _STARTUP_SECONDS // 2},
            "readinessProbe": {"httpGet": health, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2},
            "livenessProbe": {"httpGet": health, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
            "lifecycle": {"preStop": {"exec": {"command": _drain_command(engine)}}},
            "resources": _resources(engine),
            "securityContext": _security(hardware),
            "volumeMounts": _mounts(engine, hardware),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    )


def _drain_command(engine: EnginePlan) -> list[str]:
    return ["python3", LAUNCHER, "--drain", f"--port={engine.port}", f"--seconds={engine.drain_seconds}"]


def _resources(engine: EnginePlan) -> dict[str, Any]:
    """The user's numbers plus the devices. Without a memory request, what the pool takes of the pod is requested."""
    limits = {**engine.resources.get("limits", {}), **{name: str(n) for name, n in engine.devices.items()}}
    requests = {
        "memory": format_quantity(engine.pool_memory + engine.shared_memory),
        **engine.resources.get("requests", {}),
        **{name: str(n) for name, n in engine.devices.items()},
    }
    return compact({"requests": requests, "limits": limits})


def _security(hardware: Hardware) -> dict[str, Any]:
    if hardware.privileged:
        return {"privileged": True}
    return compact({"capabilities": {"add": list(hardware.capabilities)}}) if hardware.capabilities else {}


def _mounts(engine: EnginePlan, hardware: Hardware) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "kvpool", "mountPath": CARRIER_FOLDER},
        {"name": "run", "mountPath": "/run/kvpool"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if engine.model_source["type"] != "Image":
        mounts.append({"name": "model", "mountPath": engine.model_path, "readOnly": True})
    for mount in hardware.mounts:
        entry: dict[str, Any] = {"name": mount.name, "mountPath": mount.path}
        mounts.append({**entry, "readOnly": True} if mount.read_only else entry)
    return mounts


def _volumes(engine: EnginePlan, hardware: Hardware) -> list[dict[str, Any]]:
    shm = {"medium": "Memory", "sizeLimit": format_quantity(engine.shared_memory)}
    volumes: list[dict[str, Any]] = [
        {"name": "kvpool", "emptyDir": {}},
        {"name": "run", "emptyDir": {}},
        {"name": "shm", "emptyDir": shm},
    ]
    match engine.model_source:
        case {"type": "HostPath", "hostPath": source}:
            volumes.append({"name": "model", "hostPath": {"path": source["path"], "type": "Directory"}})
        case {"type": "PersistentVolumeClaim", "persistentVolumeClaim": source}:
            volumes.append({"name": "model", "persistentVolumeClaim": {**source, "readOnly": True}})
    volumes += [{"name": mount.name, "hostPath": {"path": mount.path, "type": mount.type}} for mount in hardware.mounts]
    return volumes
