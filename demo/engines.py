"""Talking to engines and router from outside the cluster, over `kubectl port-forward`."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from demo.console import DemoError, Tools

HIT_TOKENS = "vllm:external_prefix_cache_hits_total"
_FORWARDING = re.compile(r"127\.0\.0\.1:(\d+) ->")


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion."""

    text: str
    prompt_tokens: int


@contextmanager
def forwarded(tools: Tools, target: str, port: int, namespace: str) -> Iterator[str]:
    """URL of a pod's or Service's port on this machine."""
    process = tools.popen("kubectl", "-n", namespace, "port-forward", target, f":{port}", "--address=127.0.0.1")
    try:
        yield _address(process, target)
    finally:
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[str], target: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := _FORWARDING.search(line):
            return f"http://127.0.0.1:{found[1]}"
    raise DemoError(f"port-forward to {target} ended with {process.wait()}")


def complete(url: str, model: str, prompt: str, tokens: int = 24) -> Answer:
    """One greedy completion."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    answer = json.loads(_post(f"{url}/v1/completions", body))
    return Answer(answer["choices"][0]["text"], answer["usage"]["prompt_tokens"])


def ready_roles(url: str) -> set[str]:
    """Types of the roles of which the router has a ready engine."""
    with urllib.request.urlopen(f"{url}/targets", timeout=10) as answer:
        targets = json.loads(answer.read())["targets"]
    return {target["roleType"] for target in targets if target["phase"] == "Ready"}


def reset_prefix_cache(url: str) -> None:
    """Empty an engine's own prefix cache (its development mode): the next hit can only come from the pool."""
    _post(f"{url}/reset_prefix_cache", {})


def pool_hit_tokens(url: str) -> int:
    """Prompt tokens that the engine says it took from the pool instead of computing them."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in page.splitlines() if line.startswith(HIT_TOKENS))


def _post(url: str, body: object) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        data: bytes = answer.read()
    return data
