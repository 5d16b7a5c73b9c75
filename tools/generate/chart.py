"""The chart's generated templates: CRDs behind `crds.enabled`, and the rules of its roles as named templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvpool_operator.api import rbac
from kvpool_operator.api.crd import KINDS, Kind, crd
from tools.generate.text import NOTICE, to_yaml

TEMPLATES = "charts/kvpool/templates"


def files(_: Path) -> dict[str, str]:
    """CRD templates, one a kind, and the rules."""
    out = {f"{TEMPLATES}/crds/{kind.crd_name}.yaml": _crd_template(kind) for kind in KINDS}
    out[f"{TEMPLATES}/_rules.tpl"] = _rules_template()
    return out


def _crd_template(kind: Kind) -> str:
    definition = crd(kind)
    spec = to_yaml({"spec": definition["spec"]})
    if "{{" in spec:
        raise ValueError(f"{kind.name}: helm would read a description as a template")
    return f"""{{{{- /* {NOTICE} */ -}}}}
{{{{- if .Values.crds.enabled }}}}
apiVersion: {definition["apiVersion"]}
kind: {definition["kind"]}
metadata:
  name: {definition["metadata"]["name"]}
  labels:
    {{{{- include "kvpool.labels" . | nindent 4 }}}}
  {{{{- if .Values.crds.keep }}}}
  annotations:
    helm.sh/resource-policy: keep
  {{{{- end }}}}
{spec}{{{{- end }}}}
"""


def _rules_template() -> str:
    blocks: list[tuple[str, str, list[dict[str, Any]]]] = [
        ("watched", "in every watched namespace", rbac.rules(rbac.Scope.WATCHED)),
        ("cluster", "cluster-wide installations only", rbac.rules(rbac.Scope.CLUSTER)),
        ("own", "in the operator's own namespace", rbac.rules(rbac.Scope.OWN)),
        ("view", "added to the view role", _rules(rbac.VIEW)),
        ("edit", "added to the edit role", _rules(rbac.EDIT)),
        ("admin", "added to the admin role", _rules(rbac.ADMIN)),
    ]
    parts = [f"{{{{- /* {NOTICE} The table is operator/kvpool_operator/api/rbac.py. */ -}}}}\n"]
    for name, where, rules in blocks:
        parts.append(f'{{{{- define "kvpool.rules.{name}" -}}}}\n# {where}\n{to_yaml(rules)}{{{{- end }}}}\n')
    return "\n".join(parts)


def _rules(grants: Sequence[rbac.Grant]) -> list[dict[str, Any]]:
    return [grant.to_rule() for grant in grants]
