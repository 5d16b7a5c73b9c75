"""The operator as a process of its own, as users run it, with its log at hand when a test fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A running operator."""

    process: subprocess.Popen[bytes]
    log: Path
    health_port: int
    metrics_port: int

    def metrics(self) -> str:
        """Its metrics page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        """What /readyz says."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_operator(
    kubeconfig: Path, log: Path, flags: Sequence[str] = (), *, may_be_dead: bool = False
) -> Iterator[OperatorProcess]:
    """Start the operator, wait until it is ready, and stop it as Kubernetes would, unless the test has ended it."""
    health, metrics = free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        "kvpool_operator.app.main",
        "--connector-image=localhost/kvpool/connector:dev",
        "--router-image=localhost/kvpool/router:dev",
        "--log-format=text",
        f"--health-port={health}",
        f"--metrics-port={metrics}",
        *flags,
    ]
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": "operator:connector"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdout=output, stderr=output)
    operator = OperatorProcess(process, log, health, metrics)
    try:
        deadline = time.monotonic() + 60
        while not operator.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the operator is not ready:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield operator
    finally:
        assert may_be_dead or process.poll() is None, f"the operator ended by itself:\n{log.read_text()[-3000:]}"
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
