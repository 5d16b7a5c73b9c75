"""The kinds that kvpool reads or writes, and where the API server serves them. No discovery: the table is short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kvpool_operator.api import API_VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection, an object or its subresource."""
        root = "/api" if "/" not in self.api_version else "/apis"
        parts = [root, self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        return "/".join([*parts, *(part for part in (name, subresource) if part)])


_RBAC = "rbac.authorization.k8s.io/v1"
_ROWS = (
    Resource("KVPool", API_VERSION, "kvpools"),
    Resource("InferenceGroup", API_VERSION, "inferencegroups"),
    Resource("InferenceRole", API_VERSION, "inferenceroles"),
    Resource("Deployment", "apps/v1", "deployments"),
    Resource("StatefulSet", "apps/v1", "statefulsets"),
    Resource("ControllerRevision", "apps/v1", "controllerrevisions"),
    Resource("Service", "v1", "services"),
    Resource("ConfigMap", "v1", "configmaps"),
    Resource("ServiceAccount", "v1", "serviceaccounts"),
    Resource("Pod", "v1", "pods"),
    Resource("Lease", "coordination.k8s.io/v1", "leases"),
    Resource("Namespace", "v1", "namespaces", namespaced=False),
    Resource("Role", _RBAC, "roles"),
    Resource("RoleBinding", _RBAC, "rolebindings"),
)
RESOURCES = MappingProxyType({row.kind: row for row in _ROWS})

POOL_CHILDREN: tuple[str, ...] = ("ControllerRevision", "ConfigMap", "Service", "StatefulSet")
GROUP_CHILDREN: tuple[str, ...] = (
    "InferenceRole",
    "ControllerRevision",
    "Service",
    "Deployment",
    "ServiceAccount",
    "Role",
    "RoleBinding",
)


def resource_of(obj: Mapping[str, Any]) -> Resource:
    """The row of an object's kind."""
    return RESOURCES[obj["kind"]]
