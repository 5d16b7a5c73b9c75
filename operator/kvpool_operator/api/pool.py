"""KVPool: the store, what each engine contributes, and what all of its clients must share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvpool_operator.api.base import (
    ATOMIC,
    FreeObject,
    ImageRef,
    Model,
    Placement,
    PullSecrets,
    Quantity,
    Resources,
    Rule,
    rules,
)
from kvpool_operator.api.conditions import ConditionList
from kvpool_operator.platform.hardware import HARDWARE, SERIES, links_of

PullPolicy = Literal["Always", "IfNotPresent", "Never"]


def _link_rules() -> list[Rule]:
    """A series takes only the links it has; from the hardware table."""
    return [
        Rule(
            f"self.series != '{series}' || self.link in {list(links_of(series))!r}",
            f"series {series} has link {' or '.join(links_of(series))}: set spec.hardware.link to that",
            ".link",
        )
        for series in SERIES
    ]


def _alignment_rules() -> list[Rule]:
    """Each row of the hardware table whose segments must be whole multiples of something."""
    out = []
    for row in HARDWARE.values():
        unit = (
            f"{row.segment_alignment >> 30}Gi"
            if row.segment_alignment >= 1 << 30
            else f"{row.segment_alignment >> 20}Mi"
        )
        out.append(
            Rule(
                f"self.hardware.series != '{row.series}' || self.hardware.link != '{row.link}' || "
                f"!isQuantity(self.segment.size) || !quantity(self.segment.size).isInteger() || "
                f"quantity(self.segment.size).asInteger() % {row.segment_alignment} == 0",
                f"on {row.name} spec.segment.size must be a whole multiple of {unit}; "
                "the store does not round, so choose the next lower or higher multiple",
                ".segment.size",
            )
        )
    return out


class HardwareSpec(Model):
    """The NPUs the engines run on; decides environment, mounts, devices, ports and alignment."""

    model_config = ConfigDict(json_schema_extra=rules(*_link_rules()))

    series: Literal["CPU", "A2", "A3", "A5"]
    """Series of the NPU: A2, A3 or A5 (950), or CPU for a pool without accelerators."""
    link: Literal["TCP", "ROCE", "HCCS", "UB", "UBOE"]
    """What transfers run over."""
    resource_name: Annotated[str | None, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] = None
    """Extended resource of the device plugin; left out, the series' usual one (huawei.com/Ascend910)."""


class SegmentSpec(Model):
    """What each engine rank contributes to the pool."""

    size: Quantity
    """Memory of one rank that becomes part of the pool; a role may override it."""
    local_buffer_size: Quantity | None = None
    """The client's transfer buffer of one rank; 1Gi when left out. Fabric memory (A3/HCCS) has none."""


class IdentitySpec(Model):
    """What every client of the pool must share: a client that differs would never hit."""

    block_size: Annotated[int | None, Field(ge=16, le=1024)] = None
    """Tokens in a KV block; 128 when left out."""
    kv_cache_dtype: Annotated[str | None, Field(pattern=r"^[a-z0-9_]+$", max_length=32)] = None
    """vLLM's --kv-cache-dtype; auto when left out."""
    hash_algorithm: Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] | None = None
    """vLLM's --prefix-caching-hash-algo; sha256_cbor when left out, since it is equal across Python versions."""
    hash_seed: Annotated[str | None, Field(pattern=r"^[0-9]{1,10}$")] = None
    """PYTHONHASHSEED of every engine; "0" when left out."""


class LabelSelector(Model):
    """Labels of namespaces."""

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)]
    """Every one of these must be there."""


class AllowedNamespaces(Model):
    """Which namespaces may use the pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "(self.from == 'Selector') == has(self.selector)",
                "selector goes with from: Selector, and only with that",
                ".selector",
            )
        ),
    )

    from_: Annotated[Literal["Same", "All", "Selector"], Field(alias="from")]
    """Same: the pool's own namespace. All: every one. Selector: those whose labels match."""
    selector: LabelSelector | None = None
    """With from: Selector."""


class MasterSpec(Model):
    """The Mooncake master."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "(has(self.evictionPercent) ? self.evictionPercent : 10) < "
                "(has(self.evictionHighWatermarkPercent) ? self.evictionHighWatermarkPercent : 90)",
                "evictionPercent (10 when left out) must be below evictionHighWatermarkPercent (90 when left out): "
                "one eviction cannot free more than there is",
                ".evictionPercent",
            )
        ),
    )

    resources: Resources | None = None
    """Requests and limits; the memory request grows with the expected number of keys (about 1 KiB a key)."""
    rpc_threads: Annotated[int | None, Field(ge=1, le=256)] = None
    """Threads of the RPC service; 4 when left out, 32 or more from 64 ranks on."""
    eviction_high_watermark_percent: Annotated[int | None, Field(ge=10, le=99)] = None
    """Fill level at which eviction starts; 90 when left out."""
    eviction_percent: Annotated[int | None, Field(ge=1, le=50)] = None
    """Share of objects that one eviction removes; 10 when left out."""
    lease_milliseconds: Annotated[int | None, Field(ge=1000, le=3600000)] = None
    """How long a read object is protected; 35000 when left out: more than the transfer timeout in force (33 s)."""
    client_ttl_seconds: Annotated[int | None, Field(ge=5, le=3600)] = None
    """How long a client counts as alive after its last ping; 120 when left out, since CPU binding starves pings."""


class MooncakeSpec(Model):
    """Settings of a Mooncake pool."""

    master: MasterSpec | None = None
    """The master."""


class KVPoolSpec(Model):
    """What the pool should be."""

    model_config = ConfigDict(json_schema_extra=rules(*_alignment_rules()))

    backend: Annotated[
        Literal["Mooncake"],
        Field(
            json_schema_extra=rules(
                Rule("self == oldSelf", "the backend of a pool cannot change: make a second pool and move the groups")
            )
        ),
    ]
    """The store; fixed once set."""
    release: Annotated[str | None, Field(max_length=32)] = None
    """Release of the store; decides image and flags. The operator's default is recorded when left out."""
    image: ImageRef | None = None
    """Image of the store; that of the release when left out."""
    image_pull_policy: PullPolicy | None = None
    """When the store's image is pulled."""
    image_pull_secrets: PullSecrets | None = None
    """Secrets for pulling it."""
    hardware: HardwareSpec
    """What the engines run on."""
    segment: SegmentSpec
    """What each engine rank contributes."""
    identity: IdentitySpec | None = None
    """What all clients share."""
    allowed_namespaces: AllowedNamespaces | None = None
    """Who may use the pool; the pool's own namespace when left out."""
    placement: Placement | None = None
    """Where the store's own pods run."""
    paused: bool = False
    """Nothing is written while this is set."""
    mooncake: MooncakeSpec | None = None
    """Settings of backend Mooncake."""


class Endpoints(Model):
    """Addresses of the store."""

    master: str
    """host:port that clients use."""
    admin: str
    """URL of the master's metrics and administration port."""


class KVPoolStatus(Model):
    """What the operator found."""

    observed_generation: int | None = None
    """The generation this status is about."""
    conditions: ConditionList | None = None
    """Ready, Reconciling, Stalled and what else there is to say."""
    endpoints: Endpoints | None = None
    """Where the store is."""
    release: str | None = None
    """The release in use."""
    members: str | None = None
    """Ready masters of those wanted, such as 1/1."""
    consumers: Annotated[list[str] | None, Field(max_length=1024, json_schema_extra=ATOMIC)] = None
    """Groups that use the pool, as namespace/name."""


class KVPool(Model):
    """A KV-cache pool: one store that inference groups share."""

    metadata: FreeObject = Field(default_factory=dict)
    spec: KVPoolSpec
    status: KVPoolStatus | None = None
