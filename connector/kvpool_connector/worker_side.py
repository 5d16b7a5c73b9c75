"""Puts the worker side together once the KV cache exists."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvpool_connector.backends import make_backend
from kvpool_connector.counters import Counters
from kvpool_connector.device import current_device
from kvpool_connector.facts import EngineFacts, read_namespace
from kvpool_connector.keys import KeySpace
from kvpool_connector.lookup import LookupServer, socket_address
from kvpool_connector.options import ConnectorOptions
from kvpool_connector.saver import BATCH_BLOCKS
from kvpool_connector.segments import layout_of
from kvpool_connector.staging import Staging
from kvpool_connector.store import StoreClient
from kvpool_connector.worker import PoolWorker, WorkerRules

logger = logging.getLogger("vllm.kvpool.worker_side")

# The launcher has waited for the store; an engine that restarts meanwhile serves without it after this time.
_ATTACH_SECONDS = 30.0


@dataclass
class WorkerSide:
    """A worker's parts, to be closed together."""

    pool: PoolWorker
    lookup: LookupServer | None

    def close(self) -> None:
        """No more look-ups, then no more store."""
        if self.lookup is not None:
            self.lookup.close()
        self.pool.close()


def build_worker_side(
    vllm_config: Any,
    facts: EngineFacts,
    options: ConnectorOptions,
    kv_caches: Mapping[str, Any],
    counters: Counters,
) -> WorkerSide:
    """Join the store and start answering look-ups (rank 0)."""
    device = current_device(facts.device_type)
    layout = layout_of(kv_caches, facts.num_blocks)
    namespace = read_namespace(vllm_config, facts, options, layout.forms, device.kind)
    keys = KeySpace.of(namespace, facts.head_ranks)
    staging = Staging(layout.block_bytes, BATCH_BLOCKS) if device.host_memory else None
    regions = (*layout.regions, *((staging.region,) if staging else ()))
    store = StoreClient(make_backend(options), regions, device.bind_thread)
    attached = store.start(_ATTACH_SECONDS)
    logger.info(
        "kvpool: rank %d, keys %s, %d bytes a block, store %s",
        facts.rank,
        keys.key(b"", facts.stage, facts.tensor_rank // facts.replicas),
        layout.block_bytes,
        "joined" if attached else "not there yet",
    )
    rules = WorkerRules(
        stage=facts.stage,
        head=facts.tensor_rank // facts.replicas,
        saves_head=facts.tensor_rank % facts.replicas == 0,
        save_async=options.save_async if options.save_async is not None else facts.kv_role != "kv_producer",
        pipelined=facts.pipeline_parallel > 1,
    )
    pool = PoolWorker(store, layout, keys, device, rules, counters, _any_rank(facts), staging)
    lookup = None
    if facts.rank == 0:
        lookup = LookupServer(socket_address(facts.engine_id, options.lookup_rpc_port), pool.count_blocks)
    return WorkerSide(pool, lookup)


def _any_rank(facts: EngineFacts) -> Callable[[bool], bool]:
    """Whether something is true on any tensor rank; all of them ask at the same point of the same step."""
    if facts.tensor_parallel == 1:
        return bool
    import torch
    from vllm.distributed.parallel_state import get_tp_group

    group = get_tp_group().cpu_group

    def ask(mine: bool) -> bool:
        flag = torch.tensor([int(mine)])
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX, group=group)
        return bool(flag.item())

    return ask
