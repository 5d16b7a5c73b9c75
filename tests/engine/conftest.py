"""The engine's packages, a carrier, a master and a pool, made once for all tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.debian import missing
from devcluster.engine import ensure_model, ensure_site_packages
from devcluster.engine.site_packages import DEBIAN_PACKAGES, engine_environment
from tests.engine.processes import BLOCK_SIZE, PROGRAMS, Master, Process, make_carrier, wait_for

SEGMENT_BYTES = 64 << 20


@pytest.fixture(scope="session")
def site_packages() -> Path:
    if sys.version_info[:2] != (3, 11):
        pytest.skip(f"requirements/engine-cpu.txt is for Python 3.11, this is {sys.version.split()[0]}")
    if os.geteuid() != 0 and (lacking := missing(DEBIAN_PACKAGES)):
        pytest.skip(f"not root, and these Debian packages are missing: {', '.join(lacking)}")
    return ensure_site_packages()


@pytest.fixture(scope="session")
def model(site_packages: Path) -> Path:
    return ensure_model()


@pytest.fixture(scope="session")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_carrier(tmp_path_factory.mktemp("carrier") / "kvpool")


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="session")
def environ(site_packages: Path) -> dict[str, str]:
    """What every engine process of these tests starts with."""
    return engine_environment(site_packages, {"KVPOOL_BLOCK_SIZE": str(BLOCK_SIZE), "VLLM_SERVER_DEV_MODE": "1"})


@pytest.fixture(scope="session")
def in_process(
    site_packages: Path, model: Path, carrier: Path, environ: dict[str, str], logs: Path
) -> Iterator[dict[str, Any]]:
    """What the engines of programs/scenarios.py did, one after another in one process, by scenario."""
    master = Master(site_packages, logs / "scenarios-master.log")
    settings = logs / "mooncake.json"
    content = {"metadata_server": "P2PHANDSHAKE", "protocol": "tcp", "local_buffer_size": "16mb"}
    settings.write_text(json.dumps(content), encoding="utf-8")
    env = {
        **environ,
        "PYTHONPATH": f"{carrier}:{site_packages}",
        "MOONCAKE_MASTER": master.address,
        "MOONCAKE_CONFIG_PATH": str(settings),
        "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "MASTER_KEYS_URL": master.keys_url,
    }
    pool = Process([sys.executable, str(PROGRAMS / "pool.py"), str(SEGMENT_BYTES)], env, logs / "pool.log")
    try:
        wait_for(lambda: pool.check_alive() and bool(master.segments()), 30, "the pool's segment")
        done = subprocess.run(
            [sys.executable, str(PROGRAMS / "scenarios.py"), str(model), str(logs / "fs")],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        (logs / "scenarios.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        assert done.returncode == 0, done.stderr[-4000:]
        lines = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        yield {line["scenario"]: line for line in lines}
    finally:
        pool.terminate()
        master.process.terminate()
