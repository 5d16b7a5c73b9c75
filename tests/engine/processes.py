"""Real processes for the tests: a Mooncake master, a pool of memory, engines started by the launcher."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
BLOCK_SIZE = 32


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait until the condition holds, and give the seconds it took; fail with what was awaited."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.1)
    return time.monotonic() - began


def make_carrier(folder: Path) -> Path:
    """What the connector image carries: the package, the launcher script, and the dist-info with the entry point."""
    shutil.copytree(REPOSITORY / "connector", folder, ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"kvpool-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kvpool\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class Process:
    """A process with its output in a file. Ended by its own id alone."""

    def __init__(self, command: list[str], env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def check_alive(self) -> bool:
        """True; fails with the end of the log if the process ended."""
        code = self._process.poll()
        assert code is None, f"{self.log.name} ended with {code}:\n{self.tail()}"
        return True

    def tail(self, lines: int = 30) -> str:
        """The last lines of its output."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """End it without warning."""
        self._process.kill()
        self._process.wait(10)

    def terminate(self, seconds: float = 60) -> float:
        """Ask it to end, and give the seconds it took."""
        began = time.monotonic()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise
        return time.monotonic() - began


def get(url: str, timeout: float = 5) -> str:
    """The body of a GET."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        body: bytes = answer.read()
    return body.decode()


def answers(url: str) -> bool:
    """Whether a GET gives 200."""
    try:
        get(url, timeout=2)
    except (urllib.error.URLError, OSError):
        return False
    return True


class Master:
    """mooncake_master on loopback; it may be killed and started again at the same address."""

    def __init__(self, site_packages: Path, log: Path) -> None:
        self._binary = str(site_packages / "mooncake" / "mooncake_master")
        self._log = log
        self._rpc_port, self._http_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self._rpc_port}"
        self.process = self._start()

    def restart(self) -> None:
        """Start it again, empty."""
        self.process = self._start()

    @property
    def keys_url(self) -> str:
        """Where all keys in the store are listed."""
        return f"http://127.0.0.1:{self._http_port}/get_all_keys"

    def segments(self) -> list[str]:
        """All mounted segments."""
        return [line for line in get(f"http://127.0.0.1:{self._http_port}/get_all_segments").splitlines() if line]

    def _start(self) -> Process:
        flags = {
            "rpc_address": "127.0.0.1",
            "rpc_port": self._rpc_port,
            "metrics_host": "127.0.0.1",
            "metrics_port": self._http_port,
            "default_kv_lease_ttl": 500,
            "client_ttl": 5,
        }
        command = [self._binary, *(f"--{name}={value}" for name, value in flags.items())]
        process = Process(command, os.environ, self._log)
        health = f"http://127.0.0.1:{self._http_port}/health"
        wait_for(
            lambda: process.check_alive() and answers(health) and json.loads(get(health)).get("service_ready", False),
            20,
            "mooncake_master to serve",
        )
        return process


@dataclass
class Engine:
    """A vLLM server that the launcher started."""

    process: Process
    url: str

    def healthy(self) -> bool:
        """Whether it says that it serves."""
        return self.process.check_alive() and answers(f"{self.url}/health")

    def complete(self, prompt: str, tokens: int = 24) -> dict[str, Any]:
        """Token ids, finish reason and usage of one greedy completion."""
        body = {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            result = json.load(answer)
        return {**result["choices"][0], "usage": result["usage"]}

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        found = re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", get(f"{self.url}/metrics"), re.MULTILINE)
        assert found, f"{self.url}/metrics has no {name}"
        return sum(float(value) for value in found)


def start_engine(carrier: Path, model: Path, environ: Mapping[str, str], log: Path) -> Engine:
    """Start an engine pod's process; the caller waits until it is healthy."""
    port = free_port()
    sizes = ["--max-model-len", "1024", "--max-num-seqs", "8", "--num-gpu-blocks-override", "64"]
    kind = ["--dtype", "float32", "--enforce-eager", "--seed", "0"]
    where = ["--model", str(model), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, str(carrier / "kvpool_launch.py"), "--", *where, *sizes, *kind]
    return Engine(Process(command, environ, log), f"http://127.0.0.1:{port}")
