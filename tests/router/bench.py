"""What the router costs: the same fake engines, reached directly, through it, and through vllm-router.

    PYTHONPATH=router:. python3 -m tests.router.bench --vllm-router /path/to/vllm-router

Each shape of load is run on every subject in turn, several rounds, and the medians are printed: on a shared machine
only figures of one run may be compared. CPU is the router process's own, per request. `direct` is one decoder alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
PARAMS = json.dumps({"do_remote_prefill": True, "remote_host": "10.0.0.1", "remote_block_ids": [[1, 2, 3]]})


@dataclass(frozen=True)
class Subject:
    name: str
    url: str
    pid: int | None


@dataclass(frozen=True)
class Load:
    concurrency: int
    prompt_bytes: int
    stream: bool

    def __str__(self) -> str:
        return f"c={self.concurrency} {self.prompt_bytes // 1024} KB {'stream' if self.stream else 'whole'}"


@dataclass(frozen=True)
class Round:
    rps: float
    p50: float
    p99: float
    first_byte: float
    cpu: float | None


@asynccontextmanager
async def program(*command: str, env: dict[str, str] | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """A child process, ended with the context."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'router'}:{ROOT}", **(env or {})},
        stdout=asyncio.subprocess.PIPE if "tests.support.fake_engine" in command else asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until_serving(client: aiohttp.ClientSession, url: str, process: asyncio.subprocess.Process) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.returncode is not None:
            raise SystemExit(f"{url}: the process ended with {process.returncode}")
        try:
            async with client.post(url + "/v1/completions", json={"model": "tiny", "prompt": "x"}) as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.2)
    raise SystemExit(f"{url}: still not serving after 60 s")


async def subjects(stack: AsyncExitStack, client: aiohttp.ClientSession, vllm_router: str | None) -> list[Subject]:
    """Start engines and routers."""
    engines: list[str] = []
    for _ in range(4):
        engine = (sys.executable, "-m", "tests.support.fake_engine", "--transfer-params", PARAMS)
        process = await stack.enter_async_context(program(*engine))
        assert process.stdout is not None
        engines.append(f"http://127.0.0.1:{(await process.stdout.readline()).decode().strip()}")
    found = [Subject("direct", engines[2], None)]
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    pairs = [{"type": "Prefill", "url": url} for url in engines[:2]]
    pairs += [{"type": "Decode", "url": url} for url in engines[2:]]
    (folder / "pairs.json").write_text(json.dumps({"targets": pairs}))
    (folder / "mixed.json").write_text(json.dumps({"targets": [{"type": "Mixed", "url": u} for u in engines[2:]]}))
    commands: dict[str, tuple[str, ...]] = {}
    for kind in ("Mixed", "Pool", "P2P"):
        file = folder / ("mixed.json" if kind == "Mixed" else "pairs.json")
        program_name = (sys.executable, "-m", "kvpool_router.main", "--transfer", kind, "--host", "127.0.0.1")
        commands[f"kvpool {kind}"] = (*program_name, "--static", str(file), "--port")
    if vllm_router:
        prefill = [word for url in engines[:2] for word in ("--prefill", url)]
        decode = [word for url in engines[2:] for word in ("--decode", url)]
        pd = ("--vllm-pd-disaggregation", "--kv-connector", "nixl", "--policy", "round_robin", "--host", "127.0.0.1")
        metrics = ("--prometheus-port", str(free_port()))
        commands["vllm-router P2P"] = (vllm_router, *pd, *prefill, *decode, *metrics, "--port")
    for name, command in commands.items():
        port = free_port()
        process = await stack.enter_async_context(program(*command, str(port)))
        await until_serving(client, f"http://127.0.0.1:{port}", process)
        found.append(Subject(name, f"http://127.0.0.1:{port}", process.pid))
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(client: aiohttp.ClientSession, subject: Subject, load: Load, seconds: float) -> Round:
    body = {"model": "tiny", "prompt": "x" * load.prompt_bytes, "max_tokens": 8, "stream": load.stream}
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    whole: list[float] = []
    first: list[float] = []
    cpu_before = cpu_seconds(subject.pid) if subject.pid else 0.0
    start = time.monotonic()

    async def user() -> None:
        while time.monotonic() < start + seconds:
            began = time.monotonic()
            async with client.post(subject.url + "/v1/completions", data=data, headers=headers) as response:
                await response.content.readany()
                first.append(time.monotonic() - began)
                await response.read()
                if response.status != 200:
                    raise SystemExit(f"{subject.name}: status {response.status}")
            whole.append(time.monotonic() - began)

    await asyncio.gather(*(user() for _ in range(load.concurrency)))
    elapsed = time.monotonic() - start
    cpu = (cpu_seconds(subject.pid) - cpu_before) / len(whole) if subject.pid else None
    cuts = statistics.quantiles(whole, n=100)
    return Round(len(whole) / elapsed, cuts[49], cuts[98], statistics.median(first), cpu)


def line(load: Load, subject: Subject, rounds: Sequence[Round]) -> str:
    """One row of the table."""
    rps, p50, p99, first = (
        statistics.median(getattr(r, name) for r in rounds) for name in ("rps", "p50", "p99", "first_byte")
    )
    cpu = [r.cpu for r in rounds if r.cpu is not None]
    shown = f"{statistics.median(cpu) * 1000:.2f}" if cpu else "-"
    times = f"{p50 * 1000:8.2f} {p99 * 1000:8.2f} {first * 1000:10.2f}"
    return f"{load!s:22} {subject.name:16} {rps:8.0f} {times} {shown:>9}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vllm-router", help="path of the vllm-router program")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16, 64, 256])
    given = parser.parse_args()
    loads = [Load(c, 2048, False) for c in given.concurrency]
    loads += [Load(16, 65536, False), Load(16, 2048, True)]
    async with AsyncExitStack() as stack:
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        client = await stack.enter_async_context(session)
        found = await subjects(stack, client, given.vllm_router)
        print(f"{'load':22} {'subject':16} {'rps':>8} {'p50 ms':>8} {'p99 ms':>8} {'1st byte ms':>10} {'CPU ms':>9}")
        for load in loads:
            results: dict[str, list[Round]] = {subject.name: [] for subject in found}
            for _ in range(given.rounds):
                for subject in found:
                    results[subject.name].append(await measure(client, subject, load, given.seconds))
            for subject in found:
                print(line(load, subject, results[subject.name]), flush=True)
        for subject in found:
            if subject.pid:
                rss = Path(f"/proc/{subject.pid}/status").read_text().split("VmRSS:")[1].split("\n")[0].strip()
                print(f"resident memory of {subject.name}: {rss}")


if __name__ == "__main__":
    asyncio.run(main())
