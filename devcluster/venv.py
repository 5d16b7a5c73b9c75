"""Python environments keyed by what is in them: one folder per requirements file's content and Python version."""

from __future__ import annotations

import sys
import time
import venv
from pathlib import Path

from devcluster.packages import pip_environment, python_tag, requirements_file
from devcluster.paths import cache_root, digest, locked
from devcluster.shell import heartbeat, run, say

_COMPLETE = ".complete"


def venv_path(name: str) -> Path:
    """Where the environment of this requirements file belongs, whether or not it is there."""
    return cache_root() / "venv" / f"{name}-{python_tag()}-{digest([requirements_file(name)])}"


def is_complete(path: Path) -> bool:
    """Whether this environment was installed to its end."""
    return (path / _COMPLETE).exists()


def ensure_venv(name: str) -> Path:
    """Make the environment if it is not there, hashes checked, and give its folder."""
    path = venv_path(name)
    with locked(f"venv-{name}"):
        if not is_complete(path):
            began = time.monotonic()
            with heartbeat(f"installing the {name} environment"):
                # An environment cannot be renamed into place (its scripts hold its path), hence the marker.
                venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(path)
                command = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:")
                pinned = requirements_file(name)
                run(path / "bin" / "python", *command, "-r", pinned, env=pip_environment())
            (path / _COMPLETE).write_text(sys.version, encoding="utf-8")
            say(f"{name} environment made in {time.monotonic() - began:.0f} s: {path}")
    return path
