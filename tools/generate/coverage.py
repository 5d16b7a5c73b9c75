"""`docs/guide-coverage.md`: what of the deployment guide the product carries, counted from the toml file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.generate.text import NOTICE, code, table

SOURCE = "docs/guide-coverage.toml"
KINDS = {
    "env": "Environment variables",
    "arg": "Arguments and configuration keys",
    "file": "Files and commands",
    "device": "Devices",
    "rule": "Rules and pitfalls",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One term or rule of the guide, the field that carries it, and the test that shows it."""

    term: str
    section: str
    kind: str
    field: str = ""
    test: str = ""
    note: str = ""


def read_rows(repository: Path) -> list[Row]:
    """The rows; a wrong key is an error."""
    data = tomllib.loads((repository / SOURCE).read_text(encoding="utf-8"))
    return [Row(**row) for row in data["row"]]


def files(repository: Path) -> dict[str, str]:
    """The page."""
    return {"docs/guide-coverage.md": _page(read_rows(repository))}


def _page(rows: Sequence[Row]) -> str:
    lines = [
        f"<!-- {NOTICE} The rows are in {SOURCE}. -->",
        "# What of the deployment guide is carried",
        "",
        "Each term and each rule of the KV Cache Pool (Ascend Store) deployment guide: the field through which it is "
        "set, or the table that sets it, and the test that shows it. An empty cell is work still to do.",
        "",
        *table(
            ("", "rows", "with a field", "with a test"),
            [
                *(_count(title, [r for r in rows if r.kind == kind]) for kind, title in KINDS.items()),
                _count("All", rows),
            ],
        ),
    ]
    for kind, title in KINDS.items():
        chosen = [row for row in rows if row.kind == kind]
        lines += ["", f"## {title}", ""]
        lines += table(
            ("term or rule", "section", "carried by", "test", "note"),
            ((_term(r), r.section, code(r.field), code(r.test.rpartition("::")[2]), r.note) for r in chosen),
        )
    return "\n".join([*lines, ""])


def _term(row: Row) -> str:
    return row.term if row.kind == "rule" else code(row.term)


def _count(title: str, rows: Sequence[Row]) -> tuple[str, str, str, str]:
    return (title, str(len(rows)), str(sum(bool(r.field) for r in rows)), str(sum(bool(r.test) for r in rows)))
