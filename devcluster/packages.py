"""Fetching hash-pinned packages with pip: the one place that decides which of pip's settings count."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from devcluster.paths import REQUIREMENTS, cache_root, digest, locked, made_once
from devcluster.shell import DevclusterError, heartbeat, run, say


def pip_environment() -> dict[str, str]:
    """The environment for pip. A machine's wheel folders are not asked: a pinned hash names one file of one index."""
    kept = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def requirements_file(name: str) -> Path:
    """The pinned requirements of this name, e.g. ``dev``."""
    path = REQUIREMENTS / f"{name}.txt"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in REQUIREMENTS.glob("*.txt")))
        raise DevclusterError(f"no requirements/{name}.txt; there are {known}")
    return path


def python_tag() -> str:
    """The running interpreter's version as part of a cache key."""
    return f"py{sys.version_info.major}{sys.version_info.minor}"


def wheel_folder(name: str) -> Path:
    """Download the wheels of a requirements file once, and give the folder that holds exactly those."""
    pinned = requirements_file(name)
    target = cache_root() / "wheels" / f"{name}-{python_tag()}-{digest([pinned])}"
    with locked(f"wheels-{name}"):
        if not target.exists():
            with made_once(target) as fresh, heartbeat(f"downloading the wheels of {name}"):
                command = ("pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:")
                run(sys.executable, "-m", *command, "-d", fresh, "-r", pinned, env=pip_environment())
            say(f"wheels of {name}: {target}")
    return target


def one_wheel(name: str) -> Path:
    """The single wheel of a requirements file that names one package."""
    (wheel,) = wheel_folder(name).glob("*.whl")
    return wheel
