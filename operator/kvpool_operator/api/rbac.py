"""What the operator may do, one row a kind of object: the chart's roles are generated from this table.

A row is here because some code path asks for it; `why` names that path, so that a permission nobody needs stands out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from kvpool_operator.api import GROUP


class Scope(Enum):
    """Where a grant holds."""

    WATCHED = "watched"
    """In every watched namespace; in the whole cluster when no namespace is listed."""
    CLUSTER = "cluster"
    """Only with a cluster-wide installation."""
    OWN = "own"
    """In the operator's own namespace alone."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources of one API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    scope: Scope = Scope.WATCHED

    def to_rule(self) -> dict[str, Any]:
        """The PolicyRule."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


READ = ("get", "list", "watch")
OWN_CHILD = (*READ, "create", "patch", "delete")

GRANTS: tuple[Grant, ...] = (
    Grant(GROUP, ("kvpools", "inferencegroups"), READ, "the specs"),
    Grant(GROUP, ("inferenceroles",), (*OWN_CHILD, "update"), "one per role, made and repaired by the operator"),
    Grant(
        GROUP,
        ("kvpools/status", "inferencegroups/status", "inferenceroles/status"),
        ("get", "patch"),
        "conditions and what else was found",
    ),
    Grant("apps", ("deployments", "statefulsets", "controllerrevisions"), OWN_CHILD, "engines, routers, masters, pins"),
    Grant("", ("services", "configmaps", "serviceaccounts"), OWN_CHILD, "addresses, the client contract, the router"),
    Grant(
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings"),
        OWN_CHILD,
        "each router may read the EndpointSlices of its namespace",
    ),
    Grant("discovery.k8s.io", ("endpointslices",), READ, "granted to routers: nobody can grant what he lacks"),
    Grant("", ("pods",), ("list",), "why a role does not become ready"),
    Grant("", ("events",), ("create", "patch"), "transitions and warnings"),
    Grant("events.k8s.io", ("events",), ("create", "patch"), "transitions and warnings"),
    Grant("", ("namespaces",), ("get",), "a pool's allowedNamespaces selector", Scope.CLUSTER),
    Grant(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update", "patch"),
        "one operator acts at a time",
        Scope.OWN,
    ),
)

# A pool's pods may own ports and memory of every node, so it is for administrators: `edit` sees pools, no more.
USER_KINDS = ("inferencegroups", "inferenceroles")
USER_WRITE = ("create", "delete", "deletecollection", "patch", "update")
VIEW: tuple[Grant, ...] = (
    Grant(GROUP, ("kvpools", *USER_KINDS), READ, "see"),
    Grant(GROUP, ("inferenceroles/scale", *(f"{kind}/status" for kind in ("kvpools", *USER_KINDS))), ("get",), "see"),
)
EDIT: tuple[Grant, ...] = (
    Grant(GROUP, USER_KINDS, USER_WRITE, "serve models"),
    Grant(GROUP, ("inferenceroles/scale",), ("patch", "update"), "kubectl scale, autoscalers"),
)
ADMIN: tuple[Grant, ...] = (Grant(GROUP, ("kvpools",), USER_WRITE, "run stores"),)


def rules(scope: Scope) -> list[dict[str, Any]]:
    """The operator's PolicyRules of one scope, in the order of the table."""
    return [grant.to_rule() for grant in GRANTS if grant.scope is scope]
