"""The router's pods, its Service, and the right to read the EndpointSlices of its namespace."""

from __future__ import annotations

from typing import Any

from kvpool_operator.api.names import COMPONENT_LABEL, router_name
from kvpool_operator.build.meta import Owner, owned, standard_labels
from kvpool_operator.build.pod import compact, unprivileged
from kvpool_operator.plan.group import ROUTER_PORT, RouterPlan

COMPONENT = "router"
_GRACE_SECONDS = 630
"""A stopping router finishes its streams; engines drain for 600 s at most, so no stream lives longer than this."""


def build_router(owner: Owner, router: RouterPlan, template: dict[str, Any]) -> list[dict[str, Any]]:
    """All objects of the router, what it needs to start first."""
    name = router_name(owner.name)
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rule = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": owner.namespace}
    service = {
        "selector": _selector(owner),
        "ports": [{"name": "http", "port": router.port, "targetPort": "http", "protocol": "TCP"}],
    }
    return [
        owned(owner, "v1", "ServiceAccount", name, COMPONENT, {}),
        owned(owner, "rbac.authorization.k8s.io/v1", "Role", name, COMPONENT, {"rules": [rule]}),
        owned(
            owner,
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            name,
            COMPONENT,
            {"roleRef": role_ref, "subjects": [subject]},
        ),
        owned(owner, "v1", "Service", name, COMPONENT, {"spec": service}),
        _deployment(owner, router, template),
    ]


def _selector(owner: Owner) -> dict[str, str]:
    return {owner.label: owner.name, COMPONENT_LABEL: COMPONENT}


def _deployment(owner: Owner, router: RouterPlan, template: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "replicas": router.replicas,
        "selector": {"matchLabels": _selector(owner)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": template,
    }
    return owned(owner, "apps/v1", "Deployment", router_name(owner.name), COMPONENT, {"spec": spec})


def render_router_template(owner: Owner, router: RouterPlan) -> dict[str, Any]:
    """Pod template of the router."""
    container = compact(
        {
            "name": "router",
            "image": router.image,
            "imagePullPolicy": router.image_pull_policy,
            "args": list(router.args),
            "ports": [{"name": "http", "containerPort": ROUTER_PORT}],
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 2},
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": "http"},
                "periodSeconds": 10,
                "failureThreshold": 6,
            },
            "resources": dict(router.resources) or {"requests": {"cpu": "100m", "memory": "128Mi"}},
            "securityContext": unprivileged(),
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
    )
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _selector(owner)},
    }
    return {
        "metadata": {"labels": standard_labels(owner, COMPONENT)},
        "spec": {
            "enableServiceLinks": False,
            "serviceAccountName": router_name(owner.name),
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "topologySpreadConstraints": [spread],
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
