"""`python3 -m devcluster.engine site-packages | model [FOLDER]`: prints the folder, having made it if need be."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from devcluster.engine.model import ensure_model
from devcluster.engine.site_packages import ensure_site_packages
from devcluster.shell import DevclusterError


def main() -> int:
    """Run one command; its answer is the only line on standard output."""
    parser = argparse.ArgumentParser(prog="python3 -m devcluster.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("site-packages", help="the folder to put on PYTHONPATH for vLLM on CPU")
    model = commands.add_parser("model", help="a tiny Llama with a tokenizer and a chat template")
    model.add_argument("folder", type=Path, nargs="?", help="copy it there; without it, the cached one is named")
    arguments = parser.parse_args()
    try:
        if arguments.command == "site-packages":
            print(ensure_site_packages())
        else:
            print(_copied(ensure_model(), arguments.folder))
    except DevclusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _copied(model: Path, folder: Path | None) -> Path:
    if folder is None:
        return model
    shutil.copytree(model, folder, dirs_exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
