"""What only the node can know, checked before vLLM starts: a table of small named checks.

A check gives what it found, or raises LaunchError. All of them run, so that one start shows all that is wrong.
"""

from __future__ import annotations

import ipaddress
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvpool_connector.contract import EngineContract, format_quantity
from kvpool_connector.launch.command import flag_value
from kvpool_connector.launch.failure import LaunchError

_CGROUP_LIMITS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
_IMPORT_SECONDS = 120
_GLIBC_FLOOR = (2, 35)


@dataclass(frozen=True)
class Situation:
    """What the checks look at. `root` stands for the file system's root, so that tests can show another."""

    contract: EngineContract
    args: Sequence[str]
    environ: Mapping[str, str]
    root: Path = field(default=Path("/"))


@dataclass(frozen=True)
class Result:
    """A check's verdict."""

    name: str
    passed: bool
    text: str


def store_client(situation: Situation) -> str:
    """The store's Python client imports; in a process of its own, since a broken one ends by a signal."""
    module = "mooncake.store"
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env=dict(situation.environ),
        capture_output=True,
        text=True,
        timeout=_IMPORT_SECONDS,
        check=False,
    )
    if done.returncode < 0:
        raise LaunchError(f"importing {module} ended with {signal.Signals(-done.returncode).name}")
    if done.returncode > 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise LaunchError(f"importing {module} failed: {last[0]}")
    return f"{module} imports"


def config_path(situation: Situation) -> str:
    """The store's configuration file can be written."""
    folder = Path(situation.contract.mooncake_config_path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return f"{folder} is writable"
    except OSError as error:
        raise LaunchError(f"MOONCAKE_CONFIG_PATH: {folder} is not writable: {error.strerror}") from error


def temporary_folder(situation: Situation) -> str:
    """vLLM's processes meet at sockets in the temporary folder."""
    folder = situation.environ.get("VLLM_RPC_BASE_PATH") or tempfile.gettempdir()
    if not os.access(folder, os.W_OK):
        raise LaunchError(f"{folder} is not writable: mount an emptyDir there")
    return f"{folder} is writable"


def model_path(situation: Situation) -> str:
    """A model given as a path is there."""
    model = flag_value(situation.args, "--model")
    if not model:
        raise LaunchError("--model is missing from the engine's arguments")
    if model.endswith("/"):
        raise LaunchError(f"--model {model}: no slash at the end, the model's name in the pool would be empty")
    if not model.startswith(("/", ".")):
        return f"{model} is no path"
    if not Path(model, "config.json").exists():
        raise LaunchError(f"--model {model}: no config.json there; is the volume mounted?")
    return f"{model} is there"


def host_ip(situation: Situation) -> str:
    """The address that this engine announces can be reached by the others."""
    text = situation.environ.get("VLLM_HOST_IP", "")
    if not text:
        raise LaunchError("VLLM_HOST_IP is not set: take it from the downward API, status.podIP")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise LaunchError(f"VLLM_HOST_IP={text!r} is no IP address") from None
    local_master = situation.contract.master.startswith(("127.", "localhost", "[::1]"))
    if address.is_unspecified or (address.is_loopback and not local_master):
        raise LaunchError(f"VLLM_HOST_IP={text} cannot be reached from other pods")
    return f"announces {text}"


def memory(situation: Situation) -> str:
    """The segments and buffers of all ranks fit into the container's memory."""
    ranks = _local_ranks(situation.args)
    needed = ranks * (situation.contract.segment_bytes + situation.contract.local_buffer_bytes)
    limit = _memory_limit(situation.root)
    share = f"{ranks} x (segment + buffer) = {_mebibytes(needed)}, limit {_mebibytes(limit)}"
    if needed >= limit:
        raise LaunchError(f"{share}: lower the segment size or raise the memory limit")
    return share


def hccn(situation: Situation) -> str:
    """Without the NPUs' network file, transfers silently write garbage."""
    path = situation.root / "etc/hccn.conf"
    if not path.exists():
        raise LaunchError("/etc/hccn.conf is missing: mount it from the node")
    return "/etc/hccn.conf is there"


def glibc(situation: Situation) -> str:
    """Mooncake's build for NPUs needs a recent C library."""
    version = platform.libc_ver()[1]
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _GLIBC_FLOOR:
        raise LaunchError(f"glibc {version or 'unknown'}: Mooncake for NPUs needs 2.35 or later")
    return f"glibc {version}"


def ascend_plugin(situation: Situation) -> str:
    """A list of plugins without Ascend's turns NPU support off."""
    plugins = situation.environ.get("VLLM_PLUGINS", "")
    if plugins and "ascend" not in [name.strip() for name in plugins.split(",")]:
        raise LaunchError(f"VLLM_PLUGINS={plugins} leaves out ascend: vLLM would not see the NPUs")
    return "not filtered out"


_ALWAYS: tuple[Callable[[Situation], str], ...] = (
    store_client,
    config_path,
    temporary_folder,
    model_path,
    host_ip,
    memory,
)
_ON_ASCEND: tuple[Callable[[Situation], str], ...] = (hccn, glibc, ascend_plugin)


def run_checks(situation: Situation) -> list[Result]:
    """Every check that applies, in the table's order."""
    checks = (*_ALWAYS, *(_ON_ASCEND if situation.contract.protocol == "ascend" else ()))
    return [_run(check, situation) for check in checks]


def table(results: Sequence[Result]) -> str:
    """The results for a person."""
    width = max(len(result.name) for result in results)
    return "\n".join(f"{'ok  ' if r.passed else 'FAIL'}  {r.name:<{width}}  {r.text}" for r in results)


def _run(check: Callable[[Situation], str], situation: Situation) -> Result:
    name = check.__name__.replace("_", "-")
    try:
        return Result(name, True, check(situation))
    except LaunchError as error:
        return Result(name, False, str(error))
    except Exception as error:
        return Result(name, False, f"the check itself failed: {error!r}")


def _local_ranks(args: Sequence[str]) -> int:
    ranks = 1
    for flag in ("--tensor-parallel-size", "--pipeline-parallel-size"):
        ranks *= int(flag_value(args, flag, "1"))
    data = flag_value(args, "--data-parallel-size-local") or flag_value(args, "--data-parallel-size", "1")
    return ranks * int(data)


def _memory_limit(root: Path) -> int:
    for name in _CGROUP_LIMITS:
        path = root / name
        text = path.read_text(encoding="ascii").strip() if path.exists() else "max"
        if text.isdigit() and int(text) < 1 << 60:
            return int(text)
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise LaunchError("neither a cgroup limit nor MemAvailable can be read")


def _mebibytes(size: int) -> str:
    return format_quantity(size >> 20 << 20)
