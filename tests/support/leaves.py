"""Another value for every leaf of the pool's and the group's spec, by path; a test says that none is missing.

Each row: path in `changed` notation, the value, and whether children must differ while it is set.
"""

from __future__ import annotations

from typing import Any

from tests.support.objects import REMOVED, Object, changed, group, pool

Row = tuple[str, Any, bool]

POOL_BASE: Object = pool(hardware={"series": "A2", "link": "ROCE"}, segment={"size": "20Gi"})
GROUP_BASE: Object = changed(
    group(engine={"image": "engine:1", "release": "0.23.0"}), spec__router={"replicas": 1}, spec__kv={"transfer": "P2P"}
)

_RESOURCES = {"requests": {"cpu": "3"}}
_LIMITS = {"limits": {"memory": "64Gi"}}
_TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
_PLACEMENTS: tuple[tuple[str, Any], ...] = (
    ("nodeSelector", {"zone": "a"}),
    ("tolerations", [{"operator": "Exists"}]),
    ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}}),
    ("priorityClassName", "system-cluster-critical"),
    ("schedulerName", "other"),
    ("runtimeClassName", "runc"),
)

POOL_LEAVES: tuple[Row, ...] = (
    ("spec__release", "0.3.12", True),
    ("spec__image", "store:2", True),
    ("spec__imagePullPolicy", "Always", True),
    ("spec__imagePullSecrets", [{"name": "regcred"}], True),
    ("spec__hardware__series", "A3", True),
    ("spec__hardware__resourceName", "huawei.com/ascend-1980", True),
    ("spec__segment__size", "21Gi", True),
    ("spec__segment__localBufferSize", "2Gi", True),
    ("spec__identity__blockSize", 64, True),
    ("spec__identity__kvCacheDtype", "fp8", True),
    ("spec__identity__hashAlgorithm", "sha256", True),
    ("spec__identity__hashSeed", "7", True),
    ("spec__allowedNamespaces", {"from": "All"}, False),
    *((f"spec__placement__{name}", value, True) for name, value in _PLACEMENTS),
    ("spec__paused", True, False),
    ("spec__mooncake__master__resources", _RESOURCES, True),
    ("spec__mooncake__master__rpcThreads", 32, True),
    ("spec__mooncake__master__evictionHighWatermarkPercent", 80, True),
    ("spec__mooncake__master__evictionPercent", 5, True),
    ("spec__mooncake__master__leaseMilliseconds", 40000, True),
    ("spec__mooncake__master__clientTtlSeconds", 60, True),
)
GROUP_LEAVES: tuple[Row, ...] = (
    ("spec__poolRef__namespace", "default", False),
    ("spec__model__servedName", "other", True),
    ("spec__model__path", "/models/other", True),
    ("spec__model__revision", "2", True),
    ("spec__model__source", {"type": "HostPath", "hostPath": {"path": "/data"}}, True),
    ("spec__model__source", {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "x"}}, True),
    ("spec__model__attention", "Hybrid", True),
    ("spec__engine__image", "engine:2", True),
    ("spec__engine__imagePullPolicy", "Always", True),
    ("spec__engine__imagePullSecrets", [{"name": "regcred"}], True),
    ("spec__engine__release", "0.30.0", True),
    ("spec__engine__connector", "AscendStore", True),
    ("spec__engine__port", 9000, True),
    ("spec__engine__args", ["--enforce-eager"], True),
    ("spec__engine__env", [{"name": "A", "value": "1"}], True),
    ("spec__kv__transfer", REMOVED, True),
    ("spec__kv__loadFailurePolicy", "Fail", True),
    ("spec__kv__loadAsync", True, True),
    ("spec__kv__decodePuts", True, True),
    ("spec__kv__decodeLoads", True, True),
    ("spec__roles__0__name", "first", True),
    ("spec__roles__0__initialReplicas", 1, False),
    ("spec__roles__0__image", "engine:3", True),
    ("spec__roles__0__segmentSize", "30Gi", True),
    ("spec__roles__0__parallelism__tensor", 2, True),
    ("spec__roles__0__parallelism__data", 2, True),
    ("spec__roles__0__resources", _LIMITS, True),
    *((f"spec__roles__0__placement__{name}", value, True) for name, value in _PLACEMENTS),
    ("spec__roles__0__args", ["--x"], True),
    ("spec__roles__0__env", [{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}], True),
    ("spec__router__type", "None", True),
    ("spec__router__image", "router:2", True),
    ("spec__router__replicas", 2, True),
    ("spec__router__port", 80, True),
    ("spec__router__queueTimeoutSeconds", 5, True),
    ("spec__router__resources", _RESOURCES, True),
    ("spec__rollout__maxUnavailable", 2, True),
    ("spec__rollout__maxSurge", 1, True),
    ("spec__rollout__drainSeconds", 30, True),
    ("spec__paused", True, False),
)
# Leaves that cannot change, whose other value is another row's, or that leave their mark by design: a number of
# replicas stays with the InferenceRole when the group lets go of it (a scenario of its own).
NOT_HERE = frozenset(
    {
        "spec.backend",
        "spec.hardware.link",
        "spec.poolRef.name",
        "spec.roles[].type",
        "spec.roles[].replicas",
        "spec.model.source.type",
    }
)
