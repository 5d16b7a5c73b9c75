"""The launcher's story: read, check, render, wait, become vLLM."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from kvpool_connector.contract import EngineContract, render_mooncake_json
from kvpool_connector.launch.command import engine_command
from kvpool_connector.launch.contract_reader import read_contract
from kvpool_connector.launch.drain import drain
from kvpool_connector.launch.environment import engine_environment
from kvpool_connector.launch.failure import LaunchError, report
from kvpool_connector.launch.preflight import Situation, run_checks, table
from kvpool_connector.launch.store_wait import wait_for_store


def main(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """Run the launcher. Returns only if vLLM was not started."""
    options, args = _parse(argv)
    signal.signal(signal.SIGTERM, _stop)  # the first process of a container has no default action for it
    try:
        return _launch(options, args, dict(os.environ if environ is None else environ))
    except LaunchError as error:
        report(str(error))
        return 1


def _launch(options: argparse.Namespace, args: Sequence[str], environ: Mapping[str, str]) -> int:
    if options.drain:
        drain(options.port, options.seconds, _say)
        return 0
    contract = read_contract(environ)  # 1. what was agreed
    command = engine_command(contract, args)
    environment = engine_environment(contract, environ)
    if options.dry_run:
        _show(contract, command, environ, environment)
        return 0
    results = run_checks(Situation(contract, args, environment))  # 2. what is there
    failed = [result for result in results if not result.passed]
    if options.check or failed:
        print(table(results), flush=True)
    if failed:
        raise LaunchError("preflight: " + "; ".join(f"{result.name}: {result.text}" for result in failed))
    if options.check:
        return 0
    _write(contract)  # 3. what the store's client reads
    waited = wait_for_store(contract.master, contract.store_wait_seconds, _say)  # 4. the store
    _say(f"the store at {contract.master} answers after {waited:.1f} s; starting {shlex.join(command)}")
    return _become(command, environment)  # 5. signals reach vLLM itself from here on


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    own, separator, rest = (list(argv), "", []) if "--" not in argv else _split(argv)
    parser = argparse.ArgumentParser(
        prog="kvpool-launch",
        description=__doc__,
        usage="%(prog)s [--check | --dry-run] -- <vLLM arguments>  |  %(prog)s --drain",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="run the preflight checks, print them, and stop")
    mode.add_argument("--dry-run", action="store_true", help="print the files and the command, and stop")
    mode.add_argument("--drain", action="store_true", help="as preStop: wait until the running engine is idle")
    parser.add_argument("--port", type=int, default=8000, help="with --drain: the engine's API port")
    parser.add_argument("--seconds", type=float, default=600, help="with --drain: the longest wait")
    options = parser.parse_args(own)
    if not separator and not options.drain:
        parser.error("vLLM's arguments follow a `--`")
    return options, rest


def _split(argv: Sequence[str]) -> tuple[list[str], str, list[str]]:
    at = list(argv).index("--")
    return list(argv[:at]), "--", list(argv[at + 1 :])


def _write(contract: EngineContract) -> None:
    path = Path(contract.mooncake_config_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_mooncake_json(contract) + "\n", encoding="utf-8")


def _show(
    contract: EngineContract, command: Sequence[str], before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    print(f"# {contract.mooncake_config_path}\n{render_mooncake_json(contract)}\n\n# environment")
    for name, value in sorted(after.items()):
        if before.get(name) != value:
            print(f"{name}={shlex.quote(value)}")
    print(f"\n# command\n{shlex.join(command)}", flush=True)


def _become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _say(message: str) -> None:
    print(f"kvpool-launch: {message}", file=sys.stderr, flush=True)
