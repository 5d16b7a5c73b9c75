"""vLLM's command line: the user's arguments, and those that the pool decides."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from kvpool_connector.contract import EngineContract, render_kv_transfer_config
from kvpool_connector.launch.failure import LaunchError

_MODULE = "vllm.entrypoints.openai.api_server"
_TRANSFER_FLAG = "--kv-transfer-config"


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
    config = json.dumps(render_kv_transfer_config(contract), separators=(",", ":"))
    return [*command, _TRANSFER_FLAG, config]


def _identity_flags(contract: EngineContract) -> dict[str, str]:
    return {
        "--block-size": str(contract.block_size),
        "--kv-cache-dtype": contract.kv_cache_dtype,
        "--prefix-caching-hash-algo": contract.hash_algorithm,
    }
