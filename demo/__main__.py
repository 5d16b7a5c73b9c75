"""The story of the demo, in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from demo.console import Console, DemoError, Tools, devcluster, wait_for
from demo.engines import complete, forwarded, pool_hit_tokens, ready_roles, reset_prefix_cache

NAMESPACE = "demo"
POOL_FILE, GROUP_FILE = "samples/demo-pool.yaml", "samples/demo-group.yaml"
PROMPT = "the quick brown fox jumps over the lazy dog and finds a key value cache pool behind the fence. " * 6
READY_SECONDS = 600


def main() -> int:
    """Run the demo; exit code 1 with the reason when a step fails."""
    console = Console()
    os.chdir(Path(__file__).resolve().parent.parent)
    try:
        _story(console)
    except DemoError as error:
        console.say(f"\nThe demo stopped: {error}")
        return 1
    return 0


def _story(console: Console) -> None:
    tools = _cluster(console)
    _install(console, tools)
    _apply(console, tools)
    _ask(console, tools)
    _scale(console, tools)
    with console.step("what there is now"):
        tools.run("kubectl", "-n", NAMESPACE, "get", "kvp,ig,ir")
    console.summary()
    _goodbye(console)


def _cluster(console: Console) -> Tools:
    with console.step("vLLM for CPU and a tiny model (made once, then cached)"):
        packages = devcluster("site-packages", module="devcluster.engine")
        model = devcluster("model", module="devcluster.engine")
        console.say(f"   vLLM in {packages}\n   model in {model}")
    with console.step("a Kubernetes node on this machine: containers, DNS, Services"):
        command = ["up", "--profile", "node", "--mount", f"{packages}:/opt/vllm", "--mount", f"{model}:/models/demo"]
        console.command("python3 -m devcluster " + " ".join(command))
        devcluster(*command)
    with console.step("the images, built from the Dockerfile and loaded"):
        console.command("python3 -m devcluster images")
        devcluster("images")
    kubeconfig = Path(devcluster("kubeconfig", "--profile", "node"))
    return Tools(console, _path_of_tools(), kubeconfig)


def _path_of_tools() -> str:
    for line in devcluster("env", "--profile", "node").splitlines():
        if line.startswith("export PATH="):
            return line.removeprefix("export PATH=").replace('"$PATH"', os.environ["PATH"])
    raise DemoError("devcluster env names no PATH")


def _install(console: Console, tools: Tools) -> None:
    with console.step("the operator, by its chart"):
        tools.run(
            "helm", "upgrade", "--install", "kvpool", "charts/kvpool", "--namespace=kvpool-system",
            "--create-namespace", "--set=global.imageRegistry=localhost,image.tag=dev",
            "--set=images.connector.tag=dev,images.router.tag=dev", "--wait", "--timeout=120s",
        )  # fmt: skip


def _apply(console: Console, tools: Tools) -> None:
    with console.step("a pool, a group, and beside them one plain engine without a connector to compare with"):
        _ensure_namespace(tools)
        tools.run("kubectl", "-n", NAMESPACE, "apply", "-f", POOL_FILE)
        tools.run("kubectl", "-n", NAMESPACE, "apply", "-f", GROUP_FILE)
        tools.run("kubectl", "-n", NAMESPACE, "apply", "-f", "demo/baseline.yaml")
        tools.console.command(f"kubectl -n {NAMESPACE} wait --for=condition=Ready kvp/demo ig/demo")
        for kind in ("kvpool", "inferencegroup"):
            wait_for(console, f"{kind} demo", _not_ready(tools, kind), READY_SECONDS)
        tools.run("kubectl", "-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/baseline", "--timeout=300s")


def _ensure_namespace(tools: Tools) -> None:
    body = f'{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}'
    tools.run("kubectl", "apply", "-f", "-", show=False, stdin=body)


def _not_ready(tools: Tools, kind: str) -> Callable[[], str]:
    def probe() -> str:
        obj: dict[str, Any] = tools.get_json("-n", NAMESPACE, kind, "demo")
        status = obj.get("status") or {}
        if status.get("observedGeneration") != obj["metadata"]["generation"]:
            return f"{kind}: the operator has not seen it yet"
        ready = next((c for c in status.get("conditions") or [] if c["type"] == "Ready"), None)
        return "" if ready and ready["status"] == "True" else f"{kind}: {(ready or {}).get('message', 'no status')}"

    return probe


def _engine_pods(tools: Tools, role: str) -> list[str]:
    pods = tools.get_json("-n", NAMESPACE, "pods", "-l", f"kvpool.dev/role={role}")["items"]
    return [f"pod/{pod['metadata']['name']}" for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _ask(console: Console, tools: Tools) -> None:
    with console.step("the same long prompt twice through the router"):
        with forwarded(tools, "pod/baseline", 8000, NAMESPACE) as url:
            expected = complete(url, "demo", PROMPT)
        console.say(f"   without a connector, {expected.prompt_tokens} prompt tokens: {expected.text!r}")
        before = _hits(tools)
        answers = []
        with forwarded(tools, "service/demo-router", 8000, NAMESPACE) as url:
            wait_for(console, "the router", partial(_engines_missing, url), READY_SECONDS)
            console.command(f'curl {url}/v1/completions -d \'{{"model": "demo", "prompt": "the quick ..."}}\'')
            for attempt in ("first", "second"):
                answers.append(complete(url, "demo", PROMPT).text)
                hits = _hits(tools)
                gained = {role: hits[role] - before[role] for role in hits}
                console.say(f"   {attempt}: {answers[-1]!r}")
                console.say(f"   tokens taken from the pool: {gained} (vllm:external_prefix_cache_hits_total)")
                before = hits
                for pod in [*_engine_pods(tools, "prefill"), *_engine_pods(tools, "decode")]:
                    with forwarded(tools, pod, 8000, NAMESPACE) as engine:
                        reset_prefix_cache(engine)
                console.say("   the engines' own prefix caches are emptied: what comes now can only be the pool's")
        _check_answers(answers, expected.text, gained)


def _engines_missing(router: str) -> str:
    missing = {"Prefill", "Decode"} - ready_roles(router)
    return f"the router has not heard of {', '.join(sorted(missing))} engines yet" if missing else ""


def _hits(tools: Tools) -> dict[str, int]:
    hits = {}
    for role in ("prefill", "decode"):
        total = 0
        for pod in _engine_pods(tools, role):
            with forwarded(tools, pod, 8000, NAMESPACE) as url:
                total += pool_hit_tokens(url)
        hits[role] = total
    return hits


def _check_answers(answers: list[str], expected: str, gained: dict[str, int]) -> None:
    if any(answer != expected for answer in answers):
        raise DemoError(f"the tokens differ: {expected!r} without a connector, {answers!r} with the pool")
    if not all(gained.values()):
        raise DemoError(f"the second prompt took no tokens from the pool: {gained}")


def _scale(console: Console, tools: Tools) -> None:
    with console.step("one more decode engine, and a completion after it"):
        tools.run("kubectl", "-n", NAMESPACE, "scale", "ir/demo-decode", "--replicas=2")
        wait_for(console, "two decode engines", _replicas_missing(tools, 2), READY_SECONDS)
        wait_for(console, "inferencegroup demo", _not_ready(tools, "inferencegroup"), READY_SECONDS)
        with forwarded(tools, "service/demo-router", 8000, NAMESPACE) as url:
            console.say(f"   {complete(url, 'demo', PROMPT).text!r}")


def _replicas_missing(tools: Tools, wanted: int) -> Callable[[], str]:
    def probe() -> str:
        status = tools.get_json("-n", NAMESPACE, "ir", "demo-decode").get("status") or {}
        ready = status.get("readyReplicas") or 0
        return "" if ready == wanted else f"decode has {ready} of {wanted} engines ready"

    return probe


def _goodbye(console: Console) -> None:
    console.say(
        "\nTry next:\n"
        '  eval "$(make env)"                                     # kubectl and helm of this cluster\n'
        "  kubectl -n demo describe ig/demo                       # conditions in plain words\n"
        "  kubectl -n demo scale ir/demo-prefill --replicas=2\n"
        "  kubectl -n demo delete pod demo-master-0               # the engines go on without the pool\n"
        "  kubectl explain inferencegroup.spec.kv\n"
        "  make down                                              # leaves nothing behind"
    )


if __name__ == "__main__":
    sys.exit(main())
