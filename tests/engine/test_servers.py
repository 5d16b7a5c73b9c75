"""Prefill and decode as servers behind the launcher, and a master that dies under traffic."""

from __future__ import annotations

import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.processes import BLOCK_SIZE, Engine, Master, start_engine, wait_for

pytestmark = pytest.mark.engine

PROMPT = "the quick brown fox jumps over the lazy dog " * 20
HITS = "vllm:external_prefix_cache_hits_total"


@dataclass
class Pair:
    """A prefill and a decode engine on one pool."""

    master: Master
    prefill: Engine
    decode: Engine

    @property
    def engines(self) -> tuple[Engine, Engine]:
        return self.prefill, self.decode


@pytest.fixture(scope="module")
def pair(site_packages: Path, model: Path, carrier: Path, environ: dict[str, str], logs: Path) -> Iterator[Pair]:
    master = Master(site_packages, logs / "servers-master.log")
    engines = []
    try:
        for role in ("Prefill", "Decode"):
            env = {
                **environ,
                "MOONCAKE_MASTER": master.address,
                "MOONCAKE_CONFIG_PATH": str(logs / f"mooncake-{role}.json"),
                "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(64 << 20),
                "KVPOOL_LOCAL_BUFFER_SIZE": str(16 << 20),
                "KVPOOL_PROTOCOL": "tcp",
                "KVPOOL_KEY_NAMESPACE": "tests",
                "KVPOOL_ROLE": role,
                "KVPOOL_CONNECTOR": "Native",
                "KVPOOL_TRANSFER": "Pool",
            }
            engines.append(start_engine(carrier, model, env, logs / f"{role}.log"))
        for engine in engines:
            wait_for(engine.healthy, 240, f"{engine.url} to be healthy")
        yield Pair(master, *engines)
    finally:
        for engine in engines:
            engine.process.terminate()
        master.process.terminate()


def test_decode_takes_what_prefill_stored_and_continues_alike(pair: Pair, in_process: dict[str, Any]) -> None:
    first = pair.prefill.complete(PROMPT, tokens=1)
    prompt_tokens = first["usage"]["prompt_tokens"]
    before = pair.decode.metric(HITS)
    answer = pair.decode.complete(PROMPT)
    # Every whole block but the one that would leave nothing to compute, at once: prefill answers after it has stored.
    assert pair.decode.metric(HITS) - before == (prompt_tokens - 1) // BLOCK_SIZE * BLOCK_SIZE
    assert answer["token_ids"] == in_process["no connector"]["tokens"][0]
    assert first["token_ids"] == answer["token_ids"][:1]


def test_the_engines_metrics_tell_what_the_pool_did(pair: Pair) -> None:
    pair.prefill.complete(f"metrics {PROMPT}", tokens=1)
    pair.decode.complete(f"metrics {PROMPT}", tokens=1)
    for engine, name in (
        (pair.prefill, "kvpool:saved_blocks_total"),
        (pair.prefill, "kvpool:lookups_total"),
        (pair.decode, "kvpool:hit_tokens_total"),
        (pair.decode, "kvpool:loaded_bytes_total"),
    ):
        assert engine.metric(name) > 0, name
    assert pair.decode.metric("kvpool:saved_blocks_total") == 0
    assert pair.decode.metric("kvpool:store_up") == 1


@dataclass
class Traffic:
    """Requests to both engines, one after another, until stopped."""

    pair: Pair
    sent: int = 0
    problems: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stopping.is_set():
            self.sent += 1
            for engine in self.pair.engines:
                self._send(engine, f"{self.sent} traffic {PROMPT}")

    def _send(self, engine: Engine, prompt: str) -> None:
        try:
            if engine.complete(prompt, tokens=4)["finish_reason"] != "length":
                self.problems.append(f"{engine.url}: a request ended early")
            urllib.request.urlopen(f"{engine.url}/health", timeout=5).close()
        except OSError as error:
            self.problems.append(f"{engine.url}: {error}")

    def stop(self) -> None:
        self._stopping.set()


def test_no_request_fails_while_the_master_is_killed_and_restarted(pair: Pair) -> None:
    traffic = Traffic(pair)
    thread = threading.Thread(target=traffic.run)
    thread.start()
    try:
        wait_for(lambda: traffic.sent >= 2, 30, "traffic before the outage")
        pair.master.process.kill()
        during = traffic.sent
        wait_for(lambda: traffic.sent >= during + 4, 60, "traffic during the outage")
        pair.master.restart()
        before = pair.decode.metric(HITS)
        healed = wait_for(lambda: pair.decode.metric(HITS) > before, 60, "a hit after the master's return")
    finally:
        traffic.stop()
        thread.join(60)
    print(f"hits again {healed:.1f} s after the master's return, {traffic.sent} requests an engine", file=sys.stderr)
    assert traffic.problems == []
    assert sum(engine.metric("kvpool:store_outages_total") for engine in pair.engines) >= 1


def test_a_stopped_engine_takes_its_segment_along(pair: Pair) -> None:
    wait_for(lambda: len(pair.master.segments()) == 2, 30, "both engines' segments")
    pair.prefill.process.terminate()
    assert len(pair.master.segments()) == 1
    assert pair.decode.complete(PROMPT, tokens=4)["finish_reason"] == "length"
