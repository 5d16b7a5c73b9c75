"""Entry point of ``python3 -m tools.generate [--check]``."""

from __future__ import annotations

import argparse
import sys

from tools.generate import differing, write


def main(arguments: list[str] | None = None) -> int:
    """Write the generated files, or say which are stale."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.generate", description="Write the generated files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name each file that differs")
    options = parser.parse_args(arguments)
    if not options.check:
        for path in write():
            print(f"wrote {path}")
        return 0
    stale = differing()
    for path in stale:
        print(f"{path} is not what its source makes: run make generate", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
