"""The contract from the environment, with an error that names every variable at once."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from kvpool_connector.contract import EngineContract
from kvpool_connector.launch.failure import LaunchError


def read_contract(environ: Mapping[str, str]) -> EngineContract:
    """The engine's contract. Raises LaunchError."""
    try:
        contract = EngineContract.from_environ(environ)
    except ValidationError as error:
        raise LaunchError(f"environment contract: {'; '.join(_problems(error))}") from None
    if contract.transfer == "P2P" and contract.role != "Mixed" and contract.p2p is None:
        raise LaunchError("environment contract: KVPOOL_P2P is missing; KVPOOL_TRANSFER=P2P needs both roles' layout")
    return contract


def _problems(error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else "?"
        if problem["type"] == "missing":
            lines.append(f"{name} is not set")
        else:
            lines.append(f"{name}={problem['input']!r}: {problem['msg']}")
    return lines
