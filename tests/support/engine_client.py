"""Small HTTP clients for an engine and for the router, standard library only."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass

HIT_TOKENS = "vllm:external_prefix_cache_hits_total"


def _post(url: str, body: object, timeout: float) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        data: bytes = answer.read()
    return data


@dataclass(frozen=True, slots=True)
class RouterClient:
    """An OpenAI-compatible front."""

    url: str

    def complete(self, prompt: str, tokens: int = 24, timeout: float = 120) -> str:
        """Text of one greedy completion; raises on anything but 200."""
        body = {"model": "demo", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
        return str(json.loads(_post(f"{self.url}/v1/completions", body, timeout))["choices"][0]["text"])

    def ready_roles(self) -> set[str]:
        """Types of the roles of which the router has a ready engine."""
        with urllib.request.urlopen(f"{self.url}/targets", timeout=10) as answer:
            targets = json.loads(answer.read())["targets"]
        return {target["roleType"] for target in targets if target["phase"] == "Ready"}

    def stream(self, prompt: str, tokens: int = 24) -> tuple[str, int]:
        """Text and number of events of a streamed completion."""
        body = {"model": "demo", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True}
        lines = _post(f"{self.url}/v1/completions", body, 120).decode().splitlines()
        events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-1]
        return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]), len(events)


@dataclass(frozen=True, slots=True)
class EngineClient:
    """One engine."""

    url: str

    def reset_prefix_cache(self) -> None:
        """Empty the engine's own prefix cache (development mode)."""
        _post(f"{self.url}/reset_prefix_cache", {}, 30)

    def pool_hit_tokens(self) -> int:
        """Prompt tokens that the engine took from the pool, by its own metric."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith(HIT_TOKENS)]
        assert found, f"{self.url} has no metric {HIT_TOKENS}"
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)
