"""vLLM's command line: the user's arguments, and those that the pool decides."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kvpool_connector.contract import EngineContract, render_kv_transfer_config
from kvpool_connector.launch.failure import LaunchError

_MODULE = "vllm.entrypoints.openai.api_server"
_TRANSFER_FLAG = "--kv-transfer-config"
_SHUTDOWN_FLAG = "--shutdown-timeout"
# Without a timeout vLLM kills its workers at SIGTERM, and their segments stay in the store as dead weight. The pod's
# grace period is longer.
_SHUTDOWN_SECONDS = "20"


def flag_values(args: Sequence[str], flag: str) -> list[str]:
    """All values given for a flag, as `--flag value` or `--flag=value`, with hyphens or underscores."""
    values = []
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if not name.startswith("--") or name.replace("_", "-") != flag:
            continue
        values.append(value if equals else (args[index + 1] if index + 1 < len(args) else ""))
    return values


def flag_value(args: Sequence[str], flag: str, default: str = "") -> str:
    """The value that counts, which is the last."""
    values = flag_values(args, flag)
    return values[-1] if values else default


def engine_command(contract: EngineContract, args: Sequence[str]) -> list[str]:
    """The program to become. Raises LaunchError where the user's arguments contradict the pool."""
    command = [sys.executable, "-m", _MODULE, *args]
    for flag, wanted in _identity_flags(contract).items():
        given = flag_values(args, flag)
        if not given:
            command += [flag, wanted]
        elif any(value != wanted for value in given):
            raise LaunchError(
                f"{flag} {given[-1]} contradicts the pool, whose consumers share {flag} {wanted}: "
                "remove the argument, or change the pool's identity"
            )
    if flag_values(args, _TRANSFER_FLAG):
        raise LaunchError(f"{_TRANSFER_FLAG} is written by kvpool: remove it from the engine's arguments")
    if not flag_values(args, _SHUTDOWN_FLAG) and _engine_knows(_SHUTDOWN_FLAG):
        command += [_SHUTDOWN_FLAG, _SHUTDOWN_SECONDS]
    config = json.dumps(render_kv_transfer_config(contract), separators=(",", ":"))
    return [*command, _TRANSFER_FLAG, config]


def _engine_knows(flag: str) -> bool:
    """Whether this vLLM has the flag, seen in its source: importing it takes seconds."""
    spec = importlib.util.find_spec("vllm")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    source = Path(folders[0], "engine", "arg_utils.py") if folders else None
    return source is not None and source.exists() and f'"{flag}"' in source.read_text(encoding="utf-8")


def _identity_flags(contract: EngineContract) -> dict[str, str]:
    return {
        "--block-size": str(contract.block_size),
        "--kv-cache-dtype": contract.kv_cache_dtype,
        "--prefix-caching-hash-algo": contract.hash_algorithm,
    }
