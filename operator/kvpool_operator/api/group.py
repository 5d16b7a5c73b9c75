"""InferenceGroup: a model served by prefill and decode engines, or by mixed ones, over one pool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvpool_operator.api.base import (
    ATOMIC,
    ArgList,
    EnvList,
    FreeObject,
    ImageRef,
    Model,
    Name,
    Placement,
    PullSecrets,
    Quantity,
    Resources,
    Rule,
    list_map,
    rules,
)
from kvpool_operator.api.conditions import ConditionList
from kvpool_operator.api.pool import PullPolicy

RoleType = Literal["Prefill", "Decode", "Mixed"]


class PoolRef(Model):
    """The pool to use."""

    name: Name
    """Name of the KVPool."""
    namespace: Name | None = None
    """Its namespace; the group's own when left out."""


class HostPathSource(Model):
    """A folder of the node."""

    path: Annotated[str, Field(pattern=r"^/[^\s]*$", max_length=1024)]
    """Absolute path of the model's folder on every node that runs engines."""


class ClaimSource(Model):
    """A PersistentVolumeClaim of the group's namespace."""

    claim_name: Name
    """Name of the claim; its root is the model's folder."""


class ModelSource(Model):
    """Where the weights come from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "(self.type == 'HostPath') == has(self.hostPath)",
                "hostPath goes with type: HostPath, and only with that",
                ".hostPath",
            ),
            Rule(
                "(self.type == 'PersistentVolumeClaim') == has(self.persistentVolumeClaim)",
                "persistentVolumeClaim goes with type: PersistentVolumeClaim, and only with that",
                ".persistentVolumeClaim",
            ),
        ),
    )

    type: Literal["HostPath", "PersistentVolumeClaim", "Image"]
    """HostPath and PersistentVolumeClaim are mounted read-only at the model path; Image: the engine image holds it."""
    host_path: HostPathSource | None = None
    """With type: HostPath."""
    persistent_volume_claim: ClaimSource | None = None
    """With type: PersistentVolumeClaim."""


class ModelSpec(Model):
    """The model."""

    served_name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name that requests use."""
    path: Annotated[
        str,
        Field(
            pattern=r"^/[^\s]*[^/\s]$",
            max_length=1024,
        ),
    ]
    """Where the engine finds the model: an absolute path without a trailing slash. Its last part names the weights."""
    revision: Annotated[str | None, Field(max_length=128)] = None
    """Revision of the weights; part of every key, so two revisions never share KV."""
    source: ModelSource
    """Where it comes from."""
    attention: Literal["Full", "MLA", "Hybrid"] | None = None
    """Kind of attention; Full when left out. Hybrid models cannot recompute after a failed load."""


class EngineSpec(Model):
    """The engine, for all roles."""

    image: ImageRef
    """Image with vLLM (on NPUs vllm-ascend)."""
    image_pull_policy: PullPolicy | None = None
    """When it is pulled."""
    image_pull_secrets: PullSecrets | None = None
    """Secrets for pulling it."""
    release: Annotated[str, Field(max_length=32)]
    """The line of vLLM in the image, such as 0.23.0; decides which features exist."""
    connector: Literal["Native", "AscendStore"] | None = None
    """Native: kvpool's own connector. AscendStore: vllm-ascend's. The hardware's default when left out."""
    port: Annotated[int | None, Field(ge=1024, le=65535)] = None
    """API port; 8000 when left out."""
    args: ArgList | None = None
    """Further arguments of vLLM's API server, for every role."""
    env: EnvList | None = None
    """Further variables, for every role."""


class KVSpec(Model):
    """How KV moves."""

    transfer: Literal["Pool", "P2P"] | None = None
    """Pool: prefill hands over through the pool. P2P: engine to engine, with the pool as prefix cache.
    P2P with the AscendStore connector and Pool with Native when left out."""
    load_failure_policy: Literal["Recompute", "Fail"] | None = None
    """What happens to a request whose KV cannot be loaded; Recompute when left out, Fail for hybrid attention."""
    load_async: bool = False
    """Load in the background while other requests run."""
    decode_puts: bool = False
    """Decode engines save to the pool as well."""
    decode_loads: bool = False
    """Decode engines look the pool up as well (with transfer Pool they always do)."""


class Parallelism(Model):
    """How one replica is split over devices."""

    tensor: Annotated[int | None, Field(ge=1, le=64)] = None
    """Tensor-parallel size; 1 when left out."""
    data: Annotated[int | None, Field(ge=1, le=64)] = None
    """Data-parallel size inside one replica; 1 when left out."""


class RoleSpec(Model):
    """One role: engines of one kind."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!has(self.replicas) || !has(self.initialReplicas)",
                "replicas and initialReplicas exclude each other: replicas fixes the number here, "
                "initialReplicas only starts it and leaves scaling to the InferenceRole",
                ".initialReplicas",
            )
        ),
    )

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=9)]
    """Name of the role; at most 9 characters, since pod names are built from it."""
    type: RoleType
    """Prefill, Decode or Mixed."""
    replicas: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Fixed number of replicas. Left out, the InferenceRole's own number counts (kubectl scale, HPA)."""
    initial_replicas: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Number of replicas a new InferenceRole starts with; 1 when left out."""
    image: ImageRef | None = None
    """Image of this role; the engine's when left out."""
    segment_size: Quantity | None = None
    """What each rank of this role contributes; the pool's segment.size when left out."""
    parallelism: Parallelism | None = None
    """How one replica is split over devices."""
    resources: Resources | None = None
    """Requests and limits of the engine container; devices are added from parallelism and hardware."""
    placement: Placement | None = None
    """Where the pods run."""
    args: ArgList | None = None
    """Further arguments, after those of the engine."""
    env: EnvList | None = None
    """Further variables; one of the same name replaces the engine's."""


class RouterSpec(Model):
    """The OpenAI-compatible front of the group."""

    type: Literal["KVPool", "External", "None"] | None = None
    """KVPool: kvpool's router runs in front. External: yours does, by the engines' Services. None: nothing.
    KVPool when left out."""
    image: ImageRef | None = None
    """Image of the router; that of the operator's release when left out."""
    replicas: Annotated[int | None, Field(ge=0, le=50)] = None
    """Number of router pods; 2 when left out."""
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    """Port of its Service; 8000 when left out."""
    queue_timeout_seconds: Annotated[int | None, Field(ge=0, le=3600)] = None
    """How long a request waits for a usable engine; 30 when left out."""
    resources: Resources | None = None
    """Requests and limits of the router container."""


class RolloutSpec(Model):
    """How pods are replaced."""

    max_unavailable: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Replicas of a role that may be down during a roll; 1 when left out (0 with surge)."""
    max_surge: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Replicas above the wanted number during a roll; 0 when left out, since NPUs are rarely free."""
    drain_seconds: Annotated[int | None, Field(ge=0, le=7200)] = None
    """How long a stopping engine may finish its requests; 600 when left out."""


_TENSOR = "(has({0}.parallelism) && has({0}.parallelism.tensor) ? {0}.parallelism.tensor : 1)"
_ONE = "self.roles.filter(r, r.type == '{}').size()"


class InferenceGroupSpec(Model):
    """What the group should be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                f"({_ONE.format('Mixed')} == 1 && self.roles.size() == 1) || "
                f"({_ONE.format('Mixed')} == 0 && {_ONE.format('Prefill')} == 1 && {_ONE.format('Decode')} == 1)",
                "roles must be exactly one Prefill and one Decode, or exactly one Mixed",
                ".roles",
            ),
            Rule(
                "!has(self.model.attention) || self.model.attention != 'Hybrid' || !has(self.kv) || "
                "!has(self.kv.loadFailurePolicy) || self.kv.loadFailurePolicy != 'Recompute'",
                "hybrid attention cannot recompute after a failed load: set kv.loadFailurePolicy to Fail or drop it",
                ".kv.loadFailurePolicy",
            ),
            Rule(
                "!has(self.kv) || !has(self.kv.transfer) || self.kv.transfer != 'P2P' || "
                "!has(self.engine.connector) || self.engine.connector != 'Native'",
                "P2P goes with engine.connector AscendStore; with Native set kv.transfer to Pool",
                ".kv.transfer",
            ),
            Rule(
                "!self.roles.exists(p, p.type == 'Prefill' && self.roles.exists(d, d.type == 'Decode' && "
                f"{_TENSOR.format('p')} < {_TENSOR.format('d')}))",
                "prefill's parallelism.tensor must not be below decode's: a decode rank reads from one prefill rank",
                ".roles",
            ),
        ),
    )

    pool_ref: PoolRef
    """The pool."""
    model: ModelSpec
    """The model."""
    engine: EngineSpec
    """The engine."""
    kv: KVSpec | None = None
    """How KV moves."""
    roles: Annotated[list[RoleSpec], Field(min_length=1, max_length=2, json_schema_extra=list_map("name"))]
    """One Prefill and one Decode, or one Mixed."""
    router: RouterSpec | None = None
    """The front."""
    rollout: RolloutSpec | None = None
    """How pods are replaced."""
    paused: bool = False
    """Nothing is written while this is set."""


class RoleStatus(Model):
    """One role, as found."""

    name: str
    """Name of the role."""
    desired: int
    """Replicas wanted."""
    ready: int
    """Replicas ready."""
    updated: int
    """Replicas that run the present template."""
    pairing: str
    """Pairing revision: what both roles must agree on over the wire."""
    revision: str
    """The ControllerRevision that pins its pod template."""


class InferenceGroupStatus(Model):
    """What the operator found."""

    observed_generation: int | None = None
    """The generation this status is about."""
    conditions: ConditionList | None = None
    """Ready, Reconciling, Stalled and what else there is to say."""
    url: str | None = None
    """Where requests go."""
    roles: Annotated[list[RoleStatus] | None, Field(max_length=2, json_schema_extra=list_map("name"))] = None
    """The roles."""
    summary: str | None = None
    """Ready replicas of those wanted by role, such as prefill 2/2, decode 5/6."""
    warnings: Annotated[list[str] | None, Field(max_length=32, json_schema_extra=ATOMIC)] = None
    """What is allowed but unwise."""


class InferenceGroup(Model):
    """A model served by engines that share a KV-cache pool."""

    metadata: FreeObject = Field(default_factory=dict)
    spec: InferenceGroupSpec
    status: InferenceGroupStatus | None = None
