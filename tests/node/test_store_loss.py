"""The store goes away and comes back under traffic: no request fails, no engine turns NotReady, hits return."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from tests.node.conftest import PROMPT, Serving

pytestmark = pytest.mark.node

MOST_REQUESTS = 400


@dataclass(slots=True)
class Traffic:
    """One client that asks again and again until it is told to stop; bounded in count."""

    serving: Serving
    answers: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """The client's life. Prompts differ in their end, so that every request computes and saves something."""
        for number in range(MOST_REQUESTS):
            if self.stop.is_set():
                return
            try:
                self.answers.append(self.serving.router.complete(f"{PROMPT}{number}", tokens=4))
            except OSError as error:
                self.failures.append(f"request {number}: {error}")
            time.sleep(0.05)  # a pace, not a wait: the loop would fill the pool otherwise


def _engine_state(serving: Serving) -> dict[str, tuple[int, str]]:
    """Restarts, and when Ready last changed, of every engine pod."""
    state = {}
    for pod in [*serving.pods("prefill"), *serving.pods("decode")]:
        ready = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True", pod["metadata"]["name"]
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        state[pod["metadata"]["name"]] = (restarts, ready["lastTransitionTime"])
    return state


def test_a_killed_master_fails_no_request_and_its_return_brings_hits_back(serving: Serving) -> None:
    before = _engine_state(serving)
    master = serving.get("pod", "demo-master-0")["metadata"]["uid"]
    traffic = Traffic(serving)
    client = threading.Thread(target=traffic.run)
    client.start()
    try:
        serving.kubectl.wait_for("traffic to flow", lambda: len(traffic.answers) >= 5, seconds=60)
        serving.run("delete", "pod", "demo-master-0", "--grace-period=0", "--force", "--wait=false")

        def another_master_is_ready() -> bool:
            pods = serving.kubectl.get_json("pods", None, "demo", selector="app.kubernetes.io/component=master")[
                "items"
            ]
            return any(
                pod["metadata"]["uid"] != master
                and all(c["ready"] for c in pod["status"].get("containerStatuses") or [{"ready": False}])
                for pod in pods
            )

        serving.kubectl.wait_for("another master to be ready", another_master_is_ready, seconds=120)
        served = len(traffic.answers)
        serving.kubectl.wait_for("traffic after the loss", lambda: len(traffic.answers) >= served + 10, seconds=120)
    finally:
        traffic.stop.set()
        client.join(timeout=180)
    assert not client.is_alive()
    assert traffic.failures == []
    assert _engine_state(serving) == before

    def hits_are_back() -> bool:
        assert serving.router.complete(PROMPT) == serving.expected
        serving.forget_locally()
        start = sum(engine.pool_hit_tokens() for engine in serving.engines())
        assert serving.router.complete(PROMPT) == serving.expected
        return sum(engine.pool_hit_tokens() for engine in serving.engines()) > start

    serving.kubectl.wait_for("hits from the new master's pool", hits_are_back, seconds=120)
