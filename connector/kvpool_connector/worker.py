"""The worker side: fills blocks from the pool before they are used, stores them after they are computed.

Nothing raises out of here. A load that fails is reported block by block and vLLM computes it; a save that fails is
dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvpool_connector.backends.base import Outcome, Transfer
from kvpool_connector.counters import STORE_UP, Counters
from kvpool_connector.device.base import Device
from kvpool_connector.keys import KeySpace, whole_prefix
from kvpool_connector.plan import Load, Save, StepPlan
from kvpool_connector.saver import BATCH_BLOCKS, Batch, Saver
from kvpool_connector.segments import BlockLayout
from kvpool_connector.staging import Staging
from kvpool_connector.store import StoreClient

logger = logging.getLogger("vllm.kvpool.worker")

# Blocks that may wait to be stored; beyond that saving is slower than computing, and the newest are dropped.
MAX_WAITING_BLOCKS = 4096
_LOAD_BATCH = 256
_SAVE_WAIT_SECONDS = 2.0
_CLOSE_SECONDS = 1.0
_DROP_REASON = {Outcome.FULL: "store_full", Outcome.UNREACHABLE: "store_unavailable"}


@dataclass(frozen=True)
class WorkerRules:
    """This rank's place in the engine."""

    stage: int = 0
    head: int = 0
    saves_head: bool = True  # of ranks that hold the same heads, one stores them
    save_async: bool = True
    pipelined: bool = False


class PoolWorker:
    """Moves blocks between this rank's KV cache and the store."""

    def __init__(
        self,
        store: StoreClient,
        layout: BlockLayout,
        keys: KeySpace,
        device: Device,
        rules: WorkerRules,
        counters: Counters,
        any_rank: Callable[[bool], bool] = bool,
        staging: Staging | None = None,
    ) -> None:
        self._store = store
        self._layout = layout
        self._keys = keys
        self._device = device
        self._rules = rules
        self._counters = counters
        self._any_rank = any_rank
        self._staging = staging
        self._failed_step = 0
        self._lock = threading.Lock()
        self._invalid: set[int] = set()
        self._loaded: set[str] = set()
        batch_blocks = staging.blocks if staging else BATCH_BLOCKS
        self._saver = Saver(self._store_batch, counters.drop, MAX_WAITING_BLOCKS, batch_blocks)
        self._to_load: queue.SimpleQueue[Load | None] = queue.SimpleQueue()
        self._loader: threading.Thread | None = None

    # --- a step, in the order of vLLM's calls ----------------------------------------------------------------------

    def before_step(self, plan: StepPlan) -> None:
        """Make sure that no block is stored while the step overwrites it."""
        self._saver.fence(plan.reused)

    def start_loads(self, plan: StepPlan) -> None:
        """Fill the blocks this step needs; begin with those that later steps need."""
        now = [load for load in plan.loads if not load.is_async]
        for load in plan.loads:
            if load.is_async:
                self._load_beside(load)
        failed = [load for load in now if not self._load(load)]
        if now and self._any_rank(bool(failed)):
            self._failed_step = plan.step

    def end_step(self, plan: StepPlan) -> None:
        """Store the blocks that the step completed."""
        if not self._rules.saves_head:
            return
        blocks = sum(len(save.blocks) for save in plan.saves)
        if not blocks:
            return
        if not self._trusts(plan):
            self._counters.drop("after_failed_load", blocks)
            return
        if not self._store.breaker.closed:
            self._counters.drop("store_unavailable", blocks)
            return
        self._submit(plan.saves)

    def _trusts(self, plan: StepPlan) -> bool:
        """Whether what the step computed is right. Blocks after a failed load were computed from garbage."""
        loads_now = any(not load.is_async for load in plan.loads)
        # Of a load that failed in another pipeline stage this rank does not know.
        return self._failed_step <= plan.acknowledged and not (loads_now and self._rules.pipelined)

    def take_finished_loads(self) -> set[str]:
        """Requests whose asynchronous loads ended, well or not."""
        with self._lock:
            loaded, self._loaded = self._loaded, set()
            return loaded

    def take_invalid_blocks(self) -> set[int]:
        """Blocks that could not be filled."""
        with self._lock:
            invalid, self._invalid = self._invalid, set()
            return invalid

    def take_counts(self) -> dict[str, float]:
        """What was counted since the last call, with the store's state; empty if nothing was."""
        self._counters.add("store_outages", self._new_outages())
        counts = self._counters.take()
        return {**counts, STORE_UP: float(self._store.breaker.closed)} if counts else {}

    def count_blocks(self, hashes: Sequence[bytes]) -> int | None:
        """Leading blocks of which the store has all parts; None when it cannot be asked."""
        parts = self._keys.stages * self._keys.heads
        present = self._store.exists([key for value in hashes for key in self._keys.parts(value)])
        return None if present is None else whole_prefix(present, parts)

    def close(self) -> None:
        """Store what is quick to store, then leave the store."""
        self._to_load.put(None)
        self._saver.close(_CLOSE_SECONDS)
        self._store.close()

    # --- loading ---------------------------------------------------------------------------------------------------

    def _load_beside(self, load: Load) -> None:
        if self._loader is None:
            self._loader = threading.Thread(target=self._load_queued, name="kvpool-loader", daemon=True)
            self._loader.start()
        self._to_load.put(load)

    def _load_queued(self) -> None:
        self._device.bind_thread()
        while (load := self._to_load.get()) is not None:
            self._load(load)
            with self._lock:
                self._loaded.add(load.request_id)

    def _load(self, load: Load) -> bool:
        """Fill the blocks; those from the first that failed on count as failed. Never raises."""
        began = time.monotonic()
        try:
            good = self._fill(load)
        except Exception:
            logger.exception("kvpool: loading %d blocks of %s failed", len(load.blocks), load.request_id)
            good = 0
        self._counters.add("load_seconds", time.monotonic() - began)
        self._counters.add("loaded_blocks", good)
        self._counters.add("loaded_bytes", good * self._layout.block_bytes)
        lost = load.blocks[good:]
        if lost:
            self._counters.add("load_failed_blocks", len(lost))
            logger.warning("kvpool: %d of %d blocks of %s did not load", len(lost), len(load.blocks), load.request_id)
            with self._lock:
                self._invalid.update(lost)
        return not lost

    def _fill(self, load: Load) -> int:
        """How many leading blocks were filled."""
        for at in range(0, len(load.blocks), _LOAD_BATCH):
            transfers = self._transfers(load.hashes[at : at + _LOAD_BATCH], load.blocks[at : at + _LOAD_BATCH])
            outcomes = self._store.get(transfers)
            for index, outcome in enumerate(outcomes):
                if outcome is not Outcome.OK:
                    return at + index
        return len(load.blocks)

    # --- saving ----------------------------------------------------------------------------------------------------

    def _submit(self, saves: Sequence[Save]) -> None:
        event = self._device.record()
        for save in saves:
            self._saver.submit(save.hashes, save.blocks, event)
        if not self._rules.save_async and not self._saver.drain(_SAVE_WAIT_SECONDS):
            self._store.give_up(f"nothing was stored for {_SAVE_WAIT_SECONDS:.0f} s")

    def _store_batch(self, batch: Batch, release: Callable[[], None]) -> None:
        began = time.monotonic()
        batch.event.synchronize()
        transfers = self._transfers(batch.hashes, batch.blocks)
        if self._staging is not None:
            transfers = self._staging.copy(transfers)
            release()
        present = self._store.exists([transfer.key for transfer in transfers])
        if present is None:
            self._counters.drop("store_unavailable", len(transfers))
            return
        missing = [transfer for transfer, there in zip(transfers, present, strict=True) if not there]
        outcomes = self._store.put(missing)
        stored = sum(outcome is Outcome.OK for outcome in outcomes)
        for outcome in outcomes:
            if outcome is not Outcome.OK:
                self._counters.drop(_DROP_REASON.get(outcome, "put_failed"), 1)
        self._counters.add("saved_blocks", stored)
        self._counters.add("saved_bytes", stored * self._layout.block_bytes)
        self._counters.add("save_seconds", time.monotonic() - began)

    def _transfers(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> list[Transfer]:
        stage, head, sizes = self._rules.stage, self._rules.head, self._layout.sizes()
        return [
            Transfer(self._keys.key(value, stage, head), self._layout.addresses(block), sizes)
            for value, block in zip(hashes, blocks, strict=True)
        ]

    def _new_outages(self) -> int:
        breaker = self._store.breaker
        new, breaker.outages = breaker.outages, 0
        return new
