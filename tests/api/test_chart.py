"""The chart on a real API server: installed, upgraded, refused with wrong values, and what its accounts may do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvpool_operator.api.crd import KINDS
from kvpool_operator.api.rbac import GRANTS, Scope
from kvpool_operator.app.settings import parse_settings
from tests.support.access import Access, Question
from tests.support.kubectl import Kubectl, Program
from tests.support.objects import Object

pytestmark = pytest.mark.api

CHART = Path(__file__).resolve().parents[2] / "charts" / "kvpool"
# The CRDs may be there already, applied by hand or kept by another release.
ADOPT = ("--take-ownership", "--force-conflicts")


@dataclass(frozen=True, slots=True)
class Release:
    """An installed chart."""

    name: str
    namespace: str

    @property
    def operator(self) -> str:
        return f"{self.name}-operator"

    @property
    def account(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.operator}"


@cache
def _text(helm: Program, *values: str) -> str:
    flags = [part for value in values for part in ("--set", value)]
    return helm.run("template", "kvpool", CHART, "--namespace", "kvpool-system", *flags)


def _render(helm: Program, *values: str) -> list[Object]:
    return [item for item in yaml.safe_load_all(_text(helm, *values)) if item]


def _named(objects: Iterable[Object], kind: str) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def _container(objects: Iterable[Object]) -> dict[str, Any]:
    deployment = _named(objects, "Deployment")["kvpool-operator"]
    return deployment["spec"]["template"]["spec"]["containers"][0]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def access(control_plane: Path) -> Access:
    return Access(control_plane)


@pytest.fixture(scope="module")
def release(kubectl: Kubectl, helm: Program) -> Iterator[Release]:
    suffix = uuid.uuid4().hex[:6]
    installed = Release(f"kvpool-{suffix}", f"test-chart-{suffix}")
    where = ("--namespace", installed.namespace)
    helm.run("install", installed.name, CHART, *where, "--create-namespace", "--wait", "--timeout", "60s", *ADOPT)
    yield installed
    helm.run("uninstall", installed.name, *where, "--ignore-not-found")
    kubectl.run("delete", "namespace", installed.namespace, "--wait=false")


def test_the_chart_has_no_lint(helm: Program) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART)


def test_an_installed_operator_is_ready_and_the_crds_are_served(kubectl: Kubectl, release: Release) -> None:
    found = kubectl.get_json("deployment", release.operator, release.namespace)
    assert found["status"]["readyReplicas"] == found["spec"]["replicas"] == 2
    for kind in KINDS:
        assert kubectl.get_json("crd", kind.crd_name)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_an_upgrade_changes_what_was_asked_and_nothing_else(kubectl: Kubectl, helm: Program, release: Release) -> None:
    before = kubectl.get_json("deployment", release.operator, release.namespace)["spec"]
    values = ("--set", "operator.logLevel=debug", "--set", "resources.requests.cpu=75m")
    helm.run("upgrade", release.name, CHART, "--namespace", release.namespace, *values, *ADOPT)
    after = kubectl.get_json("deployment", release.operator, release.namespace)["spec"]
    (old,), (new,) = (spec["template"]["spec"].pop("containers") for spec in (before, after))
    assert after == before
    assert {key for key in new if new[key] != old[key]} == {"args", "resources"}
    assert "--log-level=debug" in new["args"]
    assert new["resources"]["requests"]["cpu"] == "75m"


def test_the_operator_may_do_all_of_the_table(access: Access, release: Release) -> None:
    for scope, namespace in (
        (Scope.WATCHED, "any-namespace"),
        (Scope.CLUSTER, None),
        (Scope.OWN, release.namespace),
    ):
        asked = [
            (verb, grant.group, resource)
            for grant in GRANTS
            if grant.scope is scope
            for resource in grant.resources
            for verb in grant.verbs
        ]
        assert access.allowed(release.account, namespace, asked) == asked


def test_the_operator_may_do_no_more(access: Access, release: Release) -> None:
    asked = [
        ("get", "", "secrets"),
        ("delete", "kvpool.dev", "kvpools"),
        ("patch", "kvpool.dev", "inferencegroups"),
        ("delete", "", "pods"),
        ("create", "", "pods/exec"),
        ("create", "rbac.authorization.k8s.io", "clusterroles"),
        ("escalate", "rbac.authorization.k8s.io", "roles"),
        ("bind", "rbac.authorization.k8s.io", "roles"),
        ("update", "coordination.k8s.io", "leases"),
    ]
    assert access.allowed(release.account, "any-namespace", asked) == []


def test_the_operator_can_grant_a_router_its_endpoint_slices(
    kubectl: Kubectl, release: Release, namespace: str
) -> None:
    rule = ("--verb=get,list,watch", "--resource=endpointslices.discovery.k8s.io")
    acting = ("--namespace", namespace, f"--as={release.account}")
    kubectl.run("create", "role", "router", *rule, *acting)
    kubectl.run("create", "rolebinding", "router", "--role=router", f"--serviceaccount={namespace}:router", *acting)
    secrets = ("--verb=get", "--resource=secrets")
    assert "is attempting to grant RBAC permissions not currently held" in kubectl.refusal(
        "create", "role", "more", *secrets, *acting
    )


@pytest.mark.parametrize(
    "role, may, may_not",
    [
        (
            "edit",
            [
                ("create", "kvpool.dev", "inferencegroups"),
                ("patch", "kvpool.dev", "inferenceroles"),
                ("patch", "kvpool.dev", "inferenceroles/scale"),
                ("list", "kvpool.dev", "kvpools"),
            ],
            [("create", "kvpool.dev", "kvpools"), ("patch", "kvpool.dev", "kvpools")],
        ),
        (
            "view",
            [("list", "kvpool.dev", "kvpools"), ("get", "kvpool.dev", "inferenceroles/scale")],
            [("create", "kvpool.dev", "inferencegroups"), ("patch", "kvpool.dev", "inferenceroles/scale")],
        ),
        ("admin", [("create", "kvpool.dev", "kvpools"), ("delete", "kvpool.dev", "inferencegroups")], []),
    ],
)
def test_the_clusters_roles_carry_groups_to_editors_and_pools_to_admins(
    kubectl: Kubectl,
    access: Access,
    release: Release,
    namespace: str,
    role: str,
    may: list[Question],
    may_not: list[Question],
) -> None:
    user = f"{role}or-{namespace}"
    kubectl.run("create", "rolebinding", "person", f"--clusterrole={role}", f"--user={user}", "--namespace", namespace)
    kubectl.wait_for(f"{role} may {may}", lambda: access.allowed(user, namespace, may) == may, seconds=20)
    assert access.allowed(user, namespace, may_not) == []


def test_a_namespaced_installation_has_roles_in_the_listed_namespaces_and_no_cluster_role(helm: Program) -> None:
    objects = _render(helm, "watchNamespaces={team-a,team-b}")
    assert {item["kind"] for item in objects}.isdisjoint({"ClusterRole", "ClusterRoleBinding"})
    where = {(item["kind"], item["metadata"]["namespace"]) for item in objects if item["kind"].startswith("Role")}
    assert where == {(kind, ns) for kind in ("Role", "RoleBinding") for ns in ("team-a", "team-b", "kvpool-system")}
    assert [arg for arg in _container(objects)["args"] if arg.startswith("--namespace")] == [
        "--namespace=team-a",
        "--namespace=team-b",
    ]


def test_a_cluster_wide_installation_names_no_namespace(helm: Program) -> None:
    objects = _render(helm)
    assert not [arg for arg in _container(objects)["args"] if arg.startswith("--namespace")]
    assert set(_named(objects, "ClusterRole")) == {"kvpool-operator", "kvpool-view", "kvpool-edit", "kvpool-admin"}


@pytest.mark.parametrize("values", [(), ("watchNamespaces={default}",)], ids=["cluster", "namespaced"])
def test_the_api_server_takes_every_object(kubectl: Kubectl, helm: Program, values: tuple[str, ...]) -> None:
    objects = [item for item in _render(helm, *values) if item["kind"] != "CustomResourceDefinition"]
    for item in objects:
        if item["metadata"].get("namespace") == "kvpool-system":
            item["metadata"]["namespace"] = "default"
    answer = kubectl.apply(*objects, dry_run=True)
    assert len(answer.splitlines()) == len(objects)


def test_images_take_registry_tag_and_digest(helm: Program) -> None:
    digest = "sha256:" + "a" * 64
    values = ("global.imageRegistry=registry.example.com:5000", f"image.digest={digest}", "images.router.tag=v2")
    container = _container(_render(helm, *values))
    assert container["image"] == f"registry.example.com:5000/kvpool/operator@{digest}"
    assert "--connector-image=registry.example.com:5000/kvpool/connector:0.1.0" in container["args"]
    assert "--router-image=registry.example.com:5000/kvpool/router:v2" in container["args"]
    assert _container(_render(helm))["image"] == "kvpool/operator:0.1.0"


def test_the_operator_understands_its_arguments(helm: Program) -> None:
    settings = parse_settings(_container(_render(helm, "watchNamespaces={team-a}"))["args"], {}, "host")
    assert settings.namespaces == ("team-a",)
    assert settings.connector_image == "kvpool/connector:0.1.0"
    assert (settings.resync_seconds, settings.workers, settings.image_pull_policy) == (300, 8, "IfNotPresent")
    ports = {port["name"]: port["containerPort"] for port in _container(_render(helm))["ports"]}
    assert ports == {"health": settings.health_port, "metrics": settings.metrics_port}


def test_the_operator_runs_without_privileges(helm: Program) -> None:
    deployment = _named(_render(helm), "Deployment")["kvpool-operator"]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_crds_can_be_left_out_and_let_go(helm: Program) -> None:
    assert not _named(_render(helm, "crds.enabled=false"), "CustomResourceDefinition")
    for definition in _named(_render(helm, "crds.keep=false"), "CustomResourceDefinition").values():
        assert "annotations" not in definition["metadata"]


@pytest.mark.parametrize(
    "value, complaint",
    [
        ("operatr.logLevel=debug", "'operatr' not allowed"),
        ("operator.loglevel=debug", "'loglevel' not allowed"),
        ("operator.logLevel=loud", "value must be one of 'debug', 'info', 'warning', 'error'"),
        ("operator.resyncSeconds=1", "minimum: got 1, want 10"),
        ("watchNamespaces=team-a", "got string, want array"),
        ("image.digest=latest", "does not match pattern"),
        ("image.repository=Registry/kvpool", "does not match pattern"),
        ("crds.keep=maybe", "got string, want boolean"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Program, value: str, complaint: str) -> None:
    assert complaint in helm.refusal("template", "kvpool", CHART, "--set", value)


def test_every_value_is_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(values) == set(schema["properties"])


def test_an_uninstall_leaves_the_crds_and_takes_the_rest(kubectl: Kubectl, helm: Program, release: Release) -> None:
    helm.run("uninstall", release.name, "--namespace", release.namespace, "--wait", "--timeout", "60s")
    for kind in KINDS:
        kubectl.get_json("crd", kind.crd_name)
    instance = f"app.kubernetes.io/instance={release.name}"
    kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings"
    left = kubectl.get_json(kinds, namespace=release.namespace, selector=instance)
    assert left["items"] == []
