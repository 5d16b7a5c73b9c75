"""`crds/*.yaml`: the CustomResourceDefinitions as `kubectl apply --server-side -f crds/` takes them."""

from __future__ import annotations

from pathlib import Path

from kvpool_operator.api.crd import KINDS, Kind, crd
from tools.generate.text import NOTICE, to_yaml


def path_of(kind: Kind) -> str:
    """Where the CRD of a kind lies."""
    return f"crds/{kind.crd_name}.yaml"


def files(_: Path) -> dict[str, str]:
    """One file a kind."""
    return {path_of(kind): f"# {NOTICE}\n{to_yaml(crd(kind))}" for kind in KINDS}
