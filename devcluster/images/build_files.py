"""Small files that an image build writes: a script for an entry point, a distribution's metadata.

Runs inside the build, in whatever Python the base image has: standard library only, and no import of this project.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

_SCRIPT = """\
#!/usr/bin/env python3
import sys

from {module} import {function}

sys.exit({function}())
"""


def script(entry_point: str, target: str) -> None:
    """Write an executable that calls ``module:function``."""
    module, _, function = entry_point.partition(":")
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCRIPT.format(module=module, function=function), encoding="utf-8")
    path.chmod(0o755)


def dist_info(name: str, version: str, plugin: str, folder: str) -> None:
    """Write the metadata by which vLLM finds its plugin on PYTHONPATH; console scripts would not work there."""
    path = Path(folder) / f"{name}-{version}.dist-info"
    path.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    (path / "METADATA").write_text(metadata, encoding="utf-8")
    (path / "entry_points.txt").write_text(f"[vllm.general_plugins]\nkvpool = {plugin}\n", encoding="utf-8")


if __name__ == "__main__":
    writers: dict[str, Callable[..., None]] = {"script": script, "dist-info": dist_info}
    writers[sys.argv[1]](*sys.argv[2:])
