"""Reference pages: every field of the API, every rule checked at admission, every reason of a condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvpool_connector.contract.quantity import PATTERN
from kvpool_operator.api import API_VERSION
from kvpool_operator.api.crd import KINDS, root_schema
from kvpool_operator.api.reasons import Reason
from tools.generate.text import NOTICE, code, table

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """One node of a schema and where it is."""

    path: str
    schema: Schema
    required: bool


def walk(schema: Schema, path: str = "", required: bool = False) -> Iterator[FieldDoc]:
    """The node and all below it, in the order of the schema; items of a list are `[]`."""
    yield FieldDoc(path, schema, required)
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}" if path else name, name in schema.get("required", ()))
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


def files(_: Path) -> dict[str, str]:
    """The pages."""
    return {"docs/api.md": _api(), "docs/rules.md": _rules(), "docs/reasons.md": _reasons()}


def _page(title: str, lines: list[str]) -> str:
    return "\n".join([f"<!-- {NOTICE} -->", f"# {title}", "", *lines, ""])


def _api() -> str:
    lines = [
        f"`{API_VERSION}`, every field. The same texts are in `kubectl explain`. Sizes are whole numbers with Ki, Mi, "
        "Gi or Ti. What is left out takes the default that its text names; the operator resolves it, the stored object "
        "keeps it out.",
    ]
    for kind in KINDS:
        schema = root_schema(kind)
        names = f"`kubectl get {kind.plural}`, short `{kind.short}`"
        lines += ["", f"## {kind.name}", "", f"{schema['description']} {names}.", ""]
        fields = [doc for doc in walk(schema) if doc.path.startswith(("spec", "status")) and not _is_plain_item(doc)]
        lines += table(
            ("field", "type", "meaning"),
            ((_name(doc), _type(doc.schema), doc.schema.get("description", "")) for doc in fields),
        )
    return _page("API reference", lines)


def _is_plain_item(doc: FieldDoc) -> bool:
    return doc.path.endswith("[]") and "properties" not in doc.schema


def _name(doc: FieldDoc) -> str:
    return f"`{doc.path}`{' (required)' if doc.required else ''}"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}s"
    if isinstance(schema.get("additionalProperties"), dict):
        return "map of strings"
    name = "size" if schema.get("pattern") == PATTERN else schema["type"]
    if "minimum" in schema and "maximum" in schema:
        name = f"{name}, {schema['minimum']} to {schema['maximum']}"
    return f"{name}, default {schema['default']}" if "default" in schema else name


def _rules() -> str:
    lines = ["What the API server checks beyond types, with the message it answers. The list is that of the CRDs."]
    for kind in KINDS:
        rows = [
            (_pointed(doc.path, entry), entry["message"], code(entry["rule"]))
            for doc in walk(root_schema(kind))
            for entry in doc.schema.get("x-kubernetes-validations", ())
        ]
        lines += ["", f"## {kind.name}", "", *table(("field", "message", "rule"), rows)]
    return _page("Rules at admission", lines)


def _pointed(path: str, entry: Schema) -> str:
    return code(f"{path}{entry.get('fieldPath', '')}".lstrip("."))


def _reasons() -> str:
    lines = [
        "Every reason that a condition of a KVPool or an InferenceGroup can carry. They are part of the API: "
        "alerts may match on them.",
        "",
        *table(("reason", "meaning"), ((code(str(reason.value)), reason.meaning) for reason in Reason)),
    ]
    return _page("Reasons", lines)
