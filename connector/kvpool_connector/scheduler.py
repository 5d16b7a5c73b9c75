"""The scheduler side: what to look up, what to load, what to save.

Knows vLLM's requests and scheduler output by their attributes only, so that it runs without vLLM. Its arithmetic is
in blocks; tokens appear at its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvpool_connector.counters import Counters
from kvpool_connector.plan import Load, Save, StepPlan


@dataclass(frozen=True)
class SchedulerRules:
    """What this engine may do, from its role and options."""

    block_size: int
    hashes_per_block: int = 1
    may_load: bool = True
    may_save: bool = True
    load_async: bool = False
    save_decode: bool = False


@dataclass
class _Tracked:
    """One request, from its first look-up to its end."""

    request: Any
    local_blocks: int = 0
    block_ids: list[int] = field(default_factory=list)
    saved: int = 0
    found: range = range(0)  # blocks that came from the pool, so need not go there
    load_failed: bool = False


def loadable_blocks(num_tokens: int, block_size: int) -> int:
    """How many blocks of a prompt may come from elsewhere: one token at least is left to compute."""
    return max(0, (num_tokens - 1) // block_size)


def external_tokens(local_tokens: int, local_blocks: int, found_blocks: int, block_size: int) -> int:
    """Tokens the pool adds to what the engine has itself; never negative."""
    return max(0, (local_blocks + found_blocks) * block_size - local_tokens)


class PoolScheduler:
    """Tracks requests and plans each step."""

    def __init__(
        self, rules: SchedulerRules, lookup: Callable[[Sequence[bytes]], int | None], counters: Counters
    ) -> None:
        self._rules = rules
        self._lookup = lookup
        self._counters = counters
        self._tracked: dict[str, _Tracked] = {}
        self._loads: list[Load] = []
        self._reused: list[int] = []
        self._step = 0
        self._acknowledged = 0

    # --- one request -----------------------------------------------------------------------------------------------

    def matched_tokens(self, request: Any, local_tokens: int) -> tuple[int, bool]:
        """Tokens beyond the local ones that the pool has, and whether they are loaded beside the steps."""
        tracked = self._tracked.setdefault(request.request_id, _Tracked(request))
        tracked.request = request
        tracked.local_blocks = local_tokens // self._rules.block_size
        tracked.found = range(0)
        if not self._wants_lookup(request, tracked):
            return 0, False
        wanted = self._hashes(
            request, tracked.local_blocks, loadable_blocks(request.num_tokens, self._rules.block_size)
        )
        if not wanted:
            return 0, False
        found = self._ask(wanted)
        tokens = external_tokens(local_tokens, tracked.local_blocks, found, self._rules.block_size)
        return tokens, self._rules.load_async and tokens > 0

    def allocated(self, request: Any, block_ids: Sequence[int], num_external_tokens: int) -> None:
        """The blocks of a request are known; with external tokens, those are to be loaded."""
        tracked = self._tracked.setdefault(request.request_id, _Tracked(request))
        tracked.block_ids = list(block_ids)
        count = num_external_tokens // self._rules.block_size
        if count <= 0:
            return
        start, end = tracked.local_blocks, tracked.local_blocks + count
        tracked.found = range(start, end)
        hashes = self._hashes(request, start, end)
        self._loads.append(Load(request.request_id, hashes, tracked.block_ids[start:end], self._rules.load_async))
        self._reused.extend(tracked.block_ids[start:])
        self._counters.add("hit_tokens", count * self._rules.block_size)

    def loads_failed(self, invalid_blocks: set[int], failed_requests: set[str]) -> None:
        """Remember whose loads failed: they are computed, not looked up again for ever."""
        if not invalid_blocks and not failed_requests:
            return
        self._acknowledged = self._step
        for request_id, tracked in self._tracked.items():
            if request_id in failed_requests or not invalid_blocks.isdisjoint(tracked.block_ids):
                tracked.load_failed = True
                tracked.saved = min(tracked.saved, tracked.found.start)
                tracked.found = range(0)

    def finished(self, request_id: str) -> None:
        """Forget a request."""
        self._tracked.pop(request_id, None)

    # --- one step --------------------------------------------------------------------------------------------------

    def plan(self, output: Any) -> StepPlan:
        """The step's plan from vLLM's scheduler output."""
        self._step += 1
        plan = StepPlan(self._step, self._acknowledged, loads=self._loads, reused=self._reused)
        self._loads, self._reused = [], []
        for new in output.scheduled_new_reqs:
            self._admit(plan, new.req_id, list(new.block_ids[0]))
            self._save(plan, output, new.req_id, new.num_computed_tokens)
        cached = output.scheduled_cached_reqs
        for index, request_id in enumerate(cached.req_ids):
            self._extend(plan, request_id, cached.new_block_ids[index], _is_resumed(cached, index, request_id))
            self._save(plan, output, request_id, cached.num_computed_tokens[index])
        return plan

    def _admit(self, plan: StepPlan, request_id: str, block_ids: list[int]) -> None:
        """All blocks but the shared ones of the local prefix are about to be written."""
        tracked = self._tracked.get(request_id)
        if tracked is None:
            return
        tracked.block_ids = block_ids
        plan.reused.extend(block_ids[tracked.local_blocks :])

    def _extend(self, plan: StepPlan, request_id: str, new: Any, resumed: bool) -> None:
        tracked = self._tracked.get(request_id)
        if tracked is None or not new:
            return
        if resumed:
            self._admit(plan, request_id, list(new[0]))
        else:
            tracked.block_ids.extend(new[0])
            plan.reused.extend(new[0])

    def _save(self, plan: StepPlan, output: Any, request_id: str, computed: int) -> None:
        tracked = self._tracked.get(request_id)
        if tracked is None or not self._rules.may_save:
            return
        tokens = computed + output.num_scheduled_tokens[request_id]
        if not self._rules.save_decode:
            tokens = min(tokens, tracked.request.num_prompt_tokens)
        hashed = len(tracked.request.block_hashes) // self._rules.hashes_per_block
        start, full = tracked.saved, min(tokens // self._rules.block_size, hashed, len(tracked.block_ids))
        if full <= start:
            return
        tracked.saved = full
        wanted = [index for index in range(start, full) if index not in tracked.found]
        if wanted:
            hashes = self._hashes(tracked.request, start, full)
            blocks = [tracked.block_ids[index] for index in wanted]
            plan.saves.append(Save(request_id, [hashes[index - start] for index in wanted], blocks))

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _wants_lookup(self, request: Any, tracked: _Tracked) -> bool:
        skips = getattr(request, "skip_reading_prefix_cache", False)
        return self._rules.may_load and not tracked.load_failed and not skips

    def _ask(self, hashes: Sequence[bytes]) -> int:
        self._counters.add("lookups")
        self._counters.add("lookup_tokens", len(hashes) * self._rules.block_size)
        found = self._lookup(hashes)
        if found is None:
            self._counters.add("lookups_unanswered")
            return 0
        return min(found, len(hashes))

    def _hashes(self, request: Any, start: int, end: int) -> list[bytes]:
        """The hashes of these blocks: vLLM may hash in finer units, of which a block's last covers all before it."""
        step = self._rules.hashes_per_block
        return [bytes(value) for value in request.block_hashes[(start + 1) * step - 1 : end * step : step]]


def _is_resumed(cached: Any, index: int, request_id: str) -> bool:
    """vLLM names resumed requests in a set, older releases in a list of flags."""
    resumed = getattr(cached, "resumed_req_ids", None)
    if resumed is not None:
        return request_id in resumed
    return bool(cached.resumed_from_preemption[index])
