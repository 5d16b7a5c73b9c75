"""One folder of packages that makes `import vllm` work on a machine without any accelerator.

vLLM's CPU build wants a CPU build of torch that is not on the package index, so it gets the ordinary build and
stand-ins for the CUDA libraries (see cuda_stubs). The folder is made whole, proved by generating a few tokens, and
renamed into place: what is there works. That run also leaves the byte code of all modules an engine imports, which a
read-only mount could not add later.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from devcluster.debian import ensure_packages
from devcluster.engine.cuda_stubs import write_stubs
from devcluster.packages import pip_environment, python_tag, requirements_file
from devcluster.paths import cache_root, digest, locked, made_once
from devcluster.shell import heartbeat, run, say

_HERE = Path(__file__).resolve().parent
# The linker makes the stand-ins; the libraries are what Mooncake's client and vLLM's kernels load.
# Packages that a server imports late, beside those that generating a token imports.
_COMPILED = (
    "vllm/entrypoints",
    "vllm/distributed",
    "vllm/v1",
    "uvicorn",
    "websockets",
    "httptools",
    "pydantic/v1",
    "model_hosting_container_standards",
    "mooncake",
    "setproctitle",
)
DEBIAN_PACKAGES = ("binutils", "libibverbs1", "libnuma1", "libcurl4")


def engine_environment(site_packages: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment in which `python3 -m vllm...` of that folder starts fast, offline and alike each time."""
    # Where byte code is not to be written, every start would compile 10,000 modules anew.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **inherited,
        "PYTHONPATH": str(site_packages),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        # Without this some paths call a C++ compiler at the first request.
        "TORCHDYNAMO_DISABLE": "1",
        **(extra or {}),
    }


def site_packages_path() -> Path:
    """Where the folder belongs, whether or not it is there."""
    sources = [_HERE / "site_packages.py", _HERE / "cuda_stubs.py", _HERE / "tiny_model.py", _HERE / "prove.py"]
    key = digest([requirements_file("engine-cpu"), *sources, python_tag(), os.uname().machine])
    return cache_root() / "engine" / key / "site-packages"


def ensure_site_packages() -> Path:
    """Make the folder if it is not there, and give its path."""
    path = site_packages_path()
    ensure_packages("the engine", DEBIAN_PACKAGES)
    with locked("engine"):
        if not path.exists():
            _make(path)
    return path


def _make(path: Path) -> None:
    began = time.monotonic()
    with made_once(path.parent) as fresh:
        target = fresh / path.name
        with heartbeat("installing vLLM for CPU (about 0.8 GiB to download)"):
            # --no-compile: the test data of some packages is no valid Python, and most modules are never imported.
            options = ("--quiet", "--no-compile", "--no-deps", "--require-hashes", "--only-binary=:all:")
            install = ("-m", "pip", "install", *options, "--root-user-action=ignore", "--target", target)
            run(sys.executable, *install, "-r", requirements_file("engine-cpu"), env=pip_environment())
        say(f"installed in {time.monotonic() - began:.0f} s; writing stand-ins for the CUDA libraries")
        write_stubs(target / "torch" / "lib")
        with heartbeat("starting vLLM for the first time"):
            compiled = (target / package for package in _COMPILED)
            run(sys.executable, "-m", "compileall", "-q", *compiled)
            quiet = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "WARNING"}
            run(sys.executable, _HERE / "prove.py", fresh / "model", env=engine_environment(target, quiet))
    say(f"vLLM for CPU made in {time.monotonic() - began:.0f} s: {path}")
