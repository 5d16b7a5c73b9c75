"""The main job on real parts: the demo's scenario as assertions, and the control that proves the hit is real."""

from __future__ import annotations

import json

import pytest

from tests.node.conftest import NAMESPACE, PROMPT, Serving

pytestmark = pytest.mark.node

# Runs inside an engine pod, as any client of the pool: every object becomes zeros of the same size. Keys are
# write-once, so each is removed before it is put again.
ZERO_ALL_OBJECTS = """
import json, os, urllib.request
from mooncake.store import MooncakeDistributedStore
admin = os.environ["MOONCAKE_MASTER"].rsplit(":", 1)[0]
with urllib.request.urlopen(f"http://{admin}:9003/get_all_keys", timeout=10) as answer:
    keys = answer.read().decode().split()
store = MooncakeDistributedStore()
own, master = os.environ["VLLM_HOST_IP"], os.environ["MOONCAKE_MASTER"]
assert store.setup(own, "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", master) == 0
zeroed = 0
for key in keys:
    size = store.get_size(key)
    assert size > 0, (key, size)
    assert store.remove(key, True) == 0, key
    assert store.put(key, bytes(size)) == 0, key
    zeroed += 1
store.close()
print(json.dumps({"zeroed": zeroed}))
"""


def test_the_second_prompt_comes_from_the_pool_with_the_tokens_of_a_plain_engine(serving: Serving) -> None:
    assert serving.router.complete(PROMPT) == serving.expected
    serving.forget_locally()
    before = {role: serving.engines(role)[0].pool_hit_tokens() for role in ("prefill", "decode")}
    assert serving.router.complete(PROMPT) == serving.expected
    gained = {role: serving.engines(role)[0].pool_hit_tokens() - before[role] for role in before}
    assert min(gained.values()) >= 32, gained


def test_zeroed_objects_change_the_output(serving: Serving) -> None:
    """Were the hit not real, zeros in the pool would not matter."""
    assert serving.router.complete(PROMPT) == serving.expected
    engine = serving.pods("decode")[0]["metadata"]["name"]
    out = serving.run("exec", engine, "-c", "engine", "--", "python3", "-c", ZERO_ALL_OBJECTS)
    assert json.loads(out.strip().splitlines()[-1])["zeroed"] > 0
    serving.forget_locally()
    assert serving.router.complete(PROMPT) != serving.expected
    _empty_the_pool(serving)
    serving.forget_locally()
    assert serving.router.complete(PROMPT) == serving.expected


def _empty_the_pool(serving: Serving) -> None:
    script = (
        "import os, urllib.request; host = os.environ['MOONCAKE_MASTER'].rsplit(':', 1)[0];"
        "request = urllib.request.Request(f'http://{host}:9003/api/v1/remove_all?force=true', data=b'');"
        "print(urllib.request.urlopen(request, timeout=10).status)"
    )
    engine = serving.pods("decode")[0]["metadata"]["name"]
    assert serving.run("exec", engine, "-c", "engine", "--", "python3", "-c", script).strip().endswith("200")


def test_a_streamed_answer_has_the_same_tokens(serving: Serving) -> None:
    text, events = serving.router.stream(PROMPT)
    assert text == serving.expected
    assert events > 5


def test_a_scaled_role_serves(serving: Serving) -> None:
    first = {pod["metadata"]["uid"] for pod in serving.pods("decode")}
    serving.run("scale", "ir/demo-decode", "--replicas=2")

    def ready() -> bool:
        return bool(serving.get("ir", "demo-decode").get("status", {}).get("readyReplicas") == 2)

    serving.kubectl.wait_for("two ready decode engines", ready, seconds=300)
    serving.wait_ready("inferencegroup", "demo")
    assert first < {pod["metadata"]["uid"] for pod in serving.pods("decode")}
    assert [serving.router.complete(PROMPT) for _ in range(4)] == [serving.expected] * 4
    served = [engine.pool_hit_tokens() for engine in serving.engines("decode")]
    assert all(served), f"an engine took nothing from the pool: {served}"
    serving.run("scale", "ir/demo-decode", "--replicas=1")
    serving.kubectl.wait_for("one decode engine", lambda: len(serving.pods("decode")) == 1, seconds=60)
    serving.wait_ready("inferencegroup", "demo")


def test_what_the_launcher_says_reaches_the_groups_condition(serving: Serving) -> None:
    broken = {
        "apiVersion": "kvpool.dev/v1alpha1",
        "kind": "InferenceGroup",
        "metadata": {"name": "broken"},
        "spec": {
            "poolRef": {"name": "demo"},
            "model": {"servedName": "none", "path": "/models/absent", "source": {"type": "Image"}},
            "engine": {"image": "localhost/kvpool/engine-cpu:dev", "release": "0.32.0"},
            "roles": [{"name": "mixed", "type": "Mixed", "resources": {"limits": {"memory": "2Gi"}}}],
            "router": {"type": "None"},
        },
    }
    serving.kubectl.apply(broken, namespace=NAMESPACE)
    try:

        def says_why() -> bool:
            conditions = serving.get("ig", "broken").get("status", {}).get("conditions", [])
            return any("/models/absent" in c["message"] for c in conditions if c["type"] == "Ready")

        serving.kubectl.wait_for("the launcher's words in the condition", says_why, seconds=90)
    finally:
        serving.run("delete", "ig", "broken")
