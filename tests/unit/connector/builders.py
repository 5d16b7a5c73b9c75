"""Values that the connector's tests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CONTRACT = {
    "MOONCAKE_MASTER": "pool-master.ml.svc:50088",
    "KVPOOL_PROTOCOL": "ascend",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "1073741824",
    "KVPOOL_LOCAL_BUFFER_SIZE": "1073741824",
    "KVPOOL_KEY_NAMESPACE": "3f6c/default",
    "KVPOOL_ROLE": "Mixed",
    "KVPOOL_CONNECTOR": "Native",
    "KVPOOL_TRANSFER": "Pool",
}
P2P = '{"kv_port":20001,"prefill_tp":8,"prefill_dp":1,"decode_tp":8,"decode_dp":1}'


@dataclass
class Request:
    """What the scheduler side reads of vLLM's request."""

    request_id: str
    num_tokens: int
    num_prompt_tokens: int
    block_hashes: list[bytes]


def request(name: str, tokens: int, block_size: int = 4, prompt: int | None = None) -> Request:
    """A request whose prompt's blocks hash to their own numbers."""
    hashes = [bytes([index]) * 8 for index in range(tokens // block_size)]
    return Request(name, tokens, tokens if prompt is None else prompt, hashes)


@dataclass
class NewRequest:
    """A request in the scheduler's output for the first time."""

    req_id: str
    block_ids: tuple[list[int], ...]
    num_computed_tokens: int


@dataclass
class CachedRequests:
    """Requests that were scheduled before."""

    req_ids: list[str] = field(default_factory=list)
    resumed_req_ids: set[str] = field(default_factory=set)
    new_block_ids: list[Any] = field(default_factory=list)
    num_computed_tokens: list[int] = field(default_factory=list)


@dataclass
class Output:
    """vLLM's scheduler output, as far as it is read."""

    num_scheduled_tokens: dict[str, int]
    scheduled_new_reqs: list[NewRequest] = field(default_factory=list)
    scheduled_cached_reqs: CachedRequests = field(default_factory=CachedRequests)


def first_step(name: str, blocks: list[int], computed: int, scheduled: int) -> Output:
    """A step that schedules one new request."""
    return Output({name: scheduled}, [NewRequest(name, (blocks,), computed)])


def later_step(name: str, new_blocks: list[int], computed: int, scheduled: int, resumed: bool = False) -> Output:
    """A step that schedules a known request again."""
    cached = CachedRequests([name], {name} if resumed else set(), [(new_blocks,) if new_blocks else None], [computed])
    return Output({name: scheduled}, scheduled_cached_reqs=cached)
