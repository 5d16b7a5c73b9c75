"""Discovery against a real API server and its EndpointSlice controller; pods are simulated."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kvpool_router.access_log import AccessLog
from kvpool_router.config import load
from kvpool_router.main import running
from tests.support.kubectl import Kubectl
from tests.support.objects import Object

pytestmark = pytest.mark.cluster

Targets = list[dict[str, Any]]


def service(pairing: str) -> Object:
    labels = {
        "kvpool.dev/group": "qwen", "kvpool.dev/role-type": "Mixed", "kvpool.dev/role": "mixed",
        "kvpool.dev/pairing": pairing, "kvpool.dev/slot": "0",
    }  # fmt: skip
    ports = [{"name": f"api-{rank}", "port": 7100 + rank} for rank in range(2)]
    spec = {"clusterIP": "None", "selector": {"app": "engine"}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "engine", "labels": labels}, "spec": spec}


def deployment(replicas: int) -> Object:
    pod = {
        "metadata": {"labels": {"app": "engine"}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "engine", "image": "engine:1"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "engine"}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "engine"}, "spec": spec}


async def test_targets_follow_the_slices_that_the_cluster_makes(
    control_plane: Path, kubectl: Kubectl, namespace: str
) -> None:
    flags = ["--namespace", namespace, "--group", "qwen", "--kubeconfig", str(control_plane), "--transfer", "Mixed"]
    flags += ["--host", "127.0.0.1", "--port", "0", "--health-interval-seconds", "0"]
    config = load(flags, {})

    async def do(*arguments: str) -> None:
        await asyncio.to_thread(kubectl.run, "--namespace", namespace, *arguments)

    async def apply(*objects: Object) -> None:
        await asyncio.to_thread(lambda: kubectl.apply(*objects, namespace=namespace))

    async with running(config, AccessLog(config, io.StringIO())) as router, aiohttp.ClientSession() as client:

        async def until(awaited: str, condition: Callable[[Targets], bool]) -> Targets:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + 30
            while True:
                async with client.get(f"http://127.0.0.1:{router.port}/targets") as response:
                    targets: Targets = json.loads(await response.text())["targets"]
                if condition(targets):
                    return targets
                assert loop.time() < deadline, f"after 30 s still waiting for {awaited}; targets: {targets}"
                await asyncio.sleep(0.05)

        def ready(count: int) -> Callable[[Targets], bool]:
            return lambda targets: [t["phase"] for t in targets].count("Ready") == count

        await apply(service("old"), deployment(2))
        found = await until("two pods with two ranks each", ready(4))
        assert {(t["roleType"], t["role"], t["pairing"], t["slot"]) for t in found} == {("Mixed", "mixed", "old", "0")}
        assert {(t["rank"], t["url"].rsplit(":", 1)[1]) for t in found} == {(0, "7100"), (1, "7101")}

        unready = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        await do("patch", "pod", found[0]["pod"], "--subresource=status", "-p", unready)
        seen = await until("the pod that is not ready to be off", ready(2))
        assert {t["phase"] for t in seen if t["pod"] == found[0]["pod"]} == {"NotReady"}

        await apply(service("new"))
        await until("the new pairing revision", lambda targets: {t["pairing"] for t in targets} == {"new"})
        await do("scale", "deployment/engine", "--replicas=0")
        await until("no target to be ready", ready(0))
        await do("delete", "service", "engine")
        await until("no target to be left", lambda targets: targets == [])

        async with client.get(f"http://127.0.0.1:{router.port}/metrics") as response:
            relists = [line for line in (await response.text()).splitlines() if "discovery_relists_total{" in line]
        # One list, and the watch carried all the rest: lists that follow failures would have hidden a broken watch.
        assert relists == ['kvpool_router_discovery_relists_total{reason="start"} 1.0']
