"""Writes every generated file of the repository from the models and tables it is made of.

``python3 -m tools.generate`` writes, ``--check`` compares and names each file that differs. A file is text made by a
pure function; `OUTPUTS` is the list of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.generate import chart, coverage, crds, docs

REPOSITORY = Path(__file__).resolve().parents[2]

# Each gives paths, relative to the repository, and their text.
OUTPUTS: tuple[Callable[[Path], Mapping[str, str]], ...] = (crds.files, chart.files, docs.files, coverage.files)


def generated(repository: Path = REPOSITORY) -> dict[str, str]:
    """Every generated file's path and text."""
    return {path: text for files in OUTPUTS for path, text in files(repository).items()}


def differing(repository: Path = REPOSITORY) -> list[str]:
    """Paths of the files that are missing or not what they should be."""
    return [
        path
        for path, text in generated(repository).items()
        if not (repository / path).is_file() or (repository / path).read_text(encoding="utf-8") != text
    ]


def write(repository: Path = REPOSITORY) -> list[str]:
    """Write what differs, and give the paths."""
    texts = generated(repository)
    changed = differing(repository)
    for path in changed:
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(texts[path], encoding="utf-8")
    return changed
