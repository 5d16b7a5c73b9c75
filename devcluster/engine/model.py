"""The tiny model's folder, made once by the engine's own packages."""

from __future__ import annotations

import sys
from pathlib import Path

from devcluster.engine.site_packages import engine_environment, ensure_site_packages
from devcluster.paths import cache_root, digest, locked, made_once
from devcluster.shell import run, say

_PROGRAM = Path(__file__).resolve().parent / "tiny_model.py"


def ensure_model() -> Path:
    """Make the model if it is not there, and give its folder. Its name never changes with what is in it."""
    site_packages = ensure_site_packages()
    path = cache_root() / "model" / digest([_PROGRAM, site_packages.parent.name]) / "tiny-llama"
    with locked("model"):
        if not path.exists():
            say("making the tiny model")
            with made_once(path.parent) as fresh:
                run(sys.executable, _PROGRAM, fresh / path.name, env=engine_environment(site_packages))
    return path
