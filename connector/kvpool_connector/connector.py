"""KVPoolConnector: vLLM's KV connector interface over the two sides of this package.

Only translation happens here. The scheduler process gets the scheduler side, each worker the worker side; which of
vLLM's calls arrive at which depends on the role given to the constructor.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1 import base

from kvpool_connector.counters import Counters
from kvpool_connector.facts import EngineFacts, read_facts
from kvpool_connector.lookup import LookupClient, socket_address
from kvpool_connector.options import ConnectorOptions, parse_options
from kvpool_connector.plan import StepPlan
from kvpool_connector.scheduler import PoolScheduler, SchedulerRules
from kvpool_connector.stats import KVPoolPromMetrics, KVPoolStats

if TYPE_CHECKING:
    from kvpool_connector.worker_side import WorkerSide

logger = logging.getLogger("vllm.kvpool.connector")


@dataclass
class KVPoolMetadata(base.KVConnectorMetadata):  # type: ignore[misc]
    """One step's plan on its way to the workers."""

    plan: StepPlan = field(default_factory=lambda: StepPlan(0, 0))


class KVPoolConnector(base.KVConnectorBase_V1, base.SupportsHMA):  # type: ignore[misc]
    """A pool of KV blocks that all engines of a namespace share."""

    _cache_hit_source = getattr(getattr(base, "CacheHitSource", None), "HOST", None)

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._config = vllm_config
        self._options, warnings = parse_options(vllm_config.kv_transfer_config.kv_connector_extra_config)
        self._facts = read_facts(vllm_config, kv_cache_config)
        self._counters = Counters()
        self._scheduler: PoolScheduler | None = None
        self._lookup: LookupClient | None = None
        self._worker: WorkerSide | None = None
        if role == base.KVConnectorRole.SCHEDULER:
            for warning in warnings:
                logger.warning("kvpool: %s", warning)
            address = socket_address(self._facts.engine_id, self._options.lookup_rpc_port)
            self._lookup = LookupClient(address, self._options.lookup_timeout)
            rules = scheduler_rules(self._facts, self._options)
            self._scheduler = PoolScheduler(rules, self._lookup, self._counters)

    # --- worker side -----------------------------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """Join the store with this rank's KV cache."""
        from kvpool_connector.worker_side import build_worker_side

        self._worker = build_worker_side(self._config, self._facts, self._options, kv_caches, self._counters)
        atexit.register(self.shutdown)

    def handle_preemptions(self, kv_connector_metadata: Any) -> None:
        """Before a step: fence blocks that it overwrites."""
        if self._worker is not None and isinstance(kv_connector_metadata, KVPoolMetadata):
            self._worker.pool.before_step(kv_connector_metadata.plan)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Load what this step's requests found in the pool."""
        if self._worker is not None:
            self._worker.pool.before_step(self._plan())  # older releases announce preemptions only
            self._worker.pool.start_loads(self._plan())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are whole blocks, not layers."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Saves are whole blocks, not layers."""

    def wait_for_save(self) -> None:
        """After a step: store the blocks it completed."""
        if self._worker is not None:
            self._worker.pool.end_step(self._plan())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Requests whose asynchronous loads ended. Saves hold no request back."""
        loaded = self._worker.pool.take_finished_loads() if self._worker is not None else set()
        return None, loaded or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks that must be computed, since they could not be loaded."""
        return self._worker.pool.take_invalid_blocks() if self._worker is not None else set()

    # --- scheduler side --------------------------------------------------------------------------------------------

    @property
    def requires_kv_delivery(self) -> bool:
        """A cache: nothing depends on a save having happened."""
        return False

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Tokens that the pool adds to the local prefix."""
        return self._scheduling().matched_tokens(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """The request has its blocks."""
        self._scheduling().allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """The step's plan."""
        return KVPoolMetadata(self._scheduling().plan(scheduler_output))

    def update_connector_output(self, connector_output: Any) -> None:
        """Learn which loads failed."""
        invalid = getattr(connector_output, "invalid_block_ids", None) or set()
        failed = getattr(connector_output, "failed_recving", None) or set()
        self._scheduling().loads_failed(set(invalid), set(failed))

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """The blocks may be freed at once: the fence keeps them until they are stored."""
        self._scheduling().finished(request.request_id)
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """As request_finished, under the hybrid memory allocator."""
        return self.request_finished(request, [])

    def set_xfer_handshake_metadata_pp_aware(self, metadata: Any) -> None:
        """Ranks need nothing of each other."""

    def take_events(self) -> Iterable[Any]:
        """No KV events yet."""
        return ()

    def reset_cache(self) -> bool | None:
        """The pool belongs to all engines: one cannot empty it."""
        logger.warning("kvpool: reset_external is refused: the pool is shared; use another key namespace instead")
        return False

    # --- both sides ------------------------------------------------------------------------------------------------

    def get_kv_connector_stats(self) -> KVPoolStats | None:
        """What was counted since the last call."""
        counts = self._worker.pool.take_counts() if self._worker is not None else self._counters.take()
        return KVPoolStats(data=counts) if counts else None

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVPoolStats:
        """The statistics object for sums that came from another process."""
        return KVPoolStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: Any,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KVPoolPromMetrics:
        """The kvpool:* metrics of the API process."""
        return KVPoolPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def shutdown(self) -> None:
        """Leave the store, so that peers see the segment go at once. Calling it again changes nothing."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
        if self._lookup is not None:
            self._lookup.close()

    def _plan(self) -> StepPlan:
        metadata = self._get_connector_metadata()
        return metadata.plan if isinstance(metadata, KVPoolMetadata) else StepPlan(0, 0)

    def _scheduling(self) -> PoolScheduler:
        if self._scheduler is None:
            raise RuntimeError("a worker's KVPoolConnector was asked a scheduler's question")
        return self._scheduler


def scheduler_rules(facts: EngineFacts, options: ConnectorOptions) -> SchedulerRules:
    """What the role allows: a kv_consumer loads and saves only if told to."""
    consumer = facts.kv_role == "kv_consumer"
    return SchedulerRules(
        block_size=facts.block_size,
        hashes_per_block=facts.hashes_per_block,
        may_load=options.consumer_is_to_load or not consumer,
        may_save=options.consumer_is_to_put or not consumer,
        load_async=options.load_async,
        save_decode=options.save_decode_cache,
    )
