"""The environment that vLLM starts in."""

from __future__ import annotations

import importlib.util
import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import kvpool_connector
from kvpool_connector.contract import EngineContract
from kvpool_connector.launch.failure import LaunchError

PLUGIN_NAME = "kvpool"
# What the Guide's scripts source before they start vLLM.
ASCEND_SCRIPTS = (
    Path("/usr/local/Ascend/ascend-toolkit/set_env.sh"),
    Path("/usr/local/Ascend/nnal/atb/set_env.sh"),
)


def carrier_folder() -> Path:
    """The folder that holds this package and its dist-info, by which vLLM discovers the plugin."""
    return Path(kvpool_connector.__file__).resolve().parent.parent


def engine_environment(contract: EngineContract, environ: Mapping[str, str]) -> dict[str, str]:
    """The engine's environment: the pod's own, completed."""
    result = dict(environ)
    if contract.protocol == "ascend":
        result = _sourced(result)
        mooncake = _package_folder("mooncake")
        if mooncake is not None:
            result["LD_LIBRARY_PATH"] = prepended(result.get("LD_LIBRARY_PATH", ""), str(mooncake))
    for name, value in contract.to_environ().items():
        result.setdefault(name, value)
    result["PYTHONPATH"] = prepended(result.get("PYTHONPATH", ""), str(carrier_folder()))
    if result.get("VLLM_PLUGINS"):
        result["VLLM_PLUGINS"] = _with_plugin(result["VLLM_PLUGINS"])
    return {**_user_without_passwd(result), **result}


def prepended(path: str, folder: str) -> str:
    """A search path with this folder first, and only there."""
    return os.pathsep.join([folder, *(part for part in path.split(os.pathsep) if part and part != folder)])


def _with_plugin(names: str) -> str:
    """VLLM_PLUGINS is a list of all that may load; ours must be in it."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    return ",".join(listed if PLUGIN_NAME in listed else [*listed, PLUGIN_NAME])


def _sourced(environ: Mapping[str, str], scripts: tuple[Path, ...] = ASCEND_SCRIPTS) -> dict[str, str]:
    """The environment after bash has sourced those scripts that are there."""
    present = [str(script) for script in scripts if script.exists()]
    if not present:
        return dict(environ)
    program = 'for script in "$@"; do source "$script" >&2 || exit 1; done; env -0'
    done = subprocess.run(
        ["bash", "-c", program, "bash", *present], env=dict(environ), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise LaunchError(f"sourcing {' and '.join(present)} failed: {done.stderr.strip()[-300:]}")
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def _user_without_passwd(environ: Mapping[str, str]) -> dict[str, str]:
    """Names for a user id that the image does not know: torch asks for one, and fails without."""
    try:
        pwd.getpwuid(os.geteuid())
        return {}
    except KeyError:
        home = environ.get("HOME", "")
        usable = home not in ("", "/") and os.access(home, os.W_OK)
        return {"USER": "kvpool", "LOGNAME": "kvpool", **({} if usable else {"HOME": tempfile.gettempdir()})}
