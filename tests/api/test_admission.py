"""What the API server takes and what it refuses: each refusal names the field and says what to do."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from kvpool_operator.api.crd import KINDS, crd
from kvpool_operator.platform.hardware import HARDWARE, LINKS, SERIES, Hardware, links_of
from tests.support.admission import Admission
from tests.support.kubectl import Kubectl
from tests.support.objects import REMOVED, Object, changed, group, mixed_group, pool, role

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("crds")]

A3_HCCS = {"series": "A3", "link": "HCCS"}

ACCEPTED: dict[str, Object] = {
    "the smallest pool": pool(),
    "a pool with every size spelled otherwise": changed(
        pool(), spec__segment={"size": "1048576Ki", "localBufferSize": "67108864"}
    ),
    "a pool name of 40 characters": pool("p" * 40),
    "a pool for namespaces with a label": pool(
        allowedNamespaces={"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}
    ),
    "1536Mi where only 16Mi must divide": changed(pool(), spec__segment__size="1536Mi"),
    "2048Mi on A3/HCCS": pool(hardware=A3_HCCS, segment={"size": "2048Mi"}),
    "the smallest group": group(),
    "a mixed group": mixed_group(),
    "a group name of 30 characters": group("g" * 30),
    "a role name of 9 characters": changed(group(), spec__roles__0__name="prefill-a"),
    "replicas fixed in the group": changed(group(), spec__roles__0__replicas=0),
    "replicas only started by the group": changed(group(), spec__roles__0__initialReplicas=3),
    "hybrid attention that fails": changed(
        group(), spec__model__attention="Hybrid", spec__kv={"loadFailurePolicy": "Fail"}
    ),
    "placement as in a pod": changed(
        group(),
        spec__roles__0__placement={
            "nodeSelector": {"npu": "a3"},
            "tolerations": [{"key": "npu", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        },
    ),
    "prefill split more than decode": changed(
        group(), spec__engine__connector="AscendStore", spec__roles__0__parallelism={"tensor": 2}
    ),
    "a role of the group's number": role(replicas=3, groupReplicas=3),
    "a role that scales itself": role(replicas=7),
}

NO_DECIMALS = "sizes have no decimals: write a whole number with Ki, Mi, Gi or Ti"
ONE_PAIR = "roles must be exactly one Prefill and one Decode, or exactly one Mixed"

# What is wrong: the object, the path in the answer, and what the answer says to do.
REFUSED: dict[str, tuple[Object, str, str]] = {
    "an unknown backend": (changed(pool(), spec__backend="Redis"), "spec.backend", 'supported values: "Mooncake"'),
    "a second backend's block": (pool(memCache={}), "spec.memCache", "unknown field"),
    "an unknown field deep down": (
        changed(pool(), spec__mooncake={"master": {"treads": 4}}),
        "spec.mooncake.master.treads",
        "unknown field",
    ),
    "no backend": (changed(pool(), spec__backend=REMOVED), "spec.backend", "Required value"),
    "no segment": (changed(pool(), spec__segment=REMOVED), "spec.segment", "Required value"),
    "a segment of 1.5Gi": (changed(pool(), spec__segment__size="1.5Gi"), "spec.segment.size", NO_DECIMALS),
    "a buffer of 0.5Gi": (
        changed(pool(), spec__segment__localBufferSize="0.5Gi"),
        "spec.segment.localBufferSize",
        NO_DECIMALS,
    ),
    "a role's segment of 1.5Gi": (
        changed(group(), spec__roles__1__segmentSize="1.5Gi"),
        "spec.roles[1].segmentSize",
        NO_DECIMALS,
    ),
    "a request that is no quantity": (
        changed(group(), spec__roles__1__resources={"requests": {"cpu": "many"}}),
        "spec.roles[1].resources.requests[cpu]",
        "such as 4, 500m or 64Gi",
    ),
    "a decimal unit": (changed(pool(), spec__segment__size="2G"), "spec.segment.size", "should match"),
    "a size that is none": (changed(pool(), spec__segment__size="plenty"), "spec.segment.size", NO_DECIMALS),
    "a segment of nothing": (changed(pool(), spec__segment__size="0"), "spec.segment.size", "should match"),
    "an unquoted number as a size": (changed(pool(), spec__segment__size=1 << 30), "spec.segment.size", "type string"),
    "1536Mi on A3/HCCS": (
        pool(hardware=A3_HCCS, segment={"size": "1536Mi"}),
        "spec.segment.size",
        "on A3/HCCS spec.segment.size must be a whole multiple of 1Gi",
    ),
    "a selector without from: Selector": (
        pool(allowedNamespaces={"from": "All", "selector": {"matchLabels": {}}}),
        "spec.allowedNamespaces.selector",
        "selector goes with from: Selector",
    ),
    "from: Selector without a selector": (
        pool(allowedNamespaces={"from": "Selector"}),
        "spec.allowedNamespaces.selector",
        "selector goes with from: Selector",
    ),
    "a pool name of 41 characters": (pool("p" * 41), "metadata.name", "at most 40 characters"),
    "a pool name that starts with a digit": (pool("1st"), "metadata.name", "must start with a letter"),
    "a pool name with a dot": (pool("a.b"), "metadata.name", "hold only lower-case letters, digits and '-'"),
    "a hash seed that is no number": (pool(identity={"hashSeed": "random"}), "spec.identity.hashSeed", "should match"),
    "a group name of 31 characters": (group("g" * 31), "metadata.name", "at most 30 characters"),
    "a role name of 10 characters": (changed(group(), spec__roles__0__name="r" * 10), "spec.roles[0].name", "than 9"),
    "prefill without decode": (group(roles=[{"name": "prefill", "type": "Prefill"}]), "spec.roles", ONE_PAIR),
    "decode without prefill": (group(roles=[{"name": "decode", "type": "Decode"}]), "spec.roles", ONE_PAIR),
    "mixed with prefill": (changed(group(), spec__roles__1__type="Mixed"), "spec.roles", ONE_PAIR),
    "two prefills": (changed(group(), spec__roles__1__type="Prefill"), "spec.roles", ONE_PAIR),
    "two mixed": (
        group(roles=[{"name": "a", "type": "Mixed"}, {"name": "b", "type": "Mixed"}]),
        "spec.roles",
        ONE_PAIR,
    ),
    "two roles of one name": (changed(group(), spec__roles__1__name="prefill"), "spec.roles[1]", "Duplicate value"),
    "no roles": (group(roles=[]), "spec.roles", "should have at least 1 items"),
    "replicas and initialReplicas": (
        changed(group(), spec__roles__0__replicas=1, spec__roles__0__initialReplicas=1),
        "spec.roles[0].initialReplicas",
        "exclude each other: replicas fixes the number here",
    ),
    "recompute with hybrid attention": (
        changed(group(), spec__model__attention="Hybrid", spec__kv={"loadFailurePolicy": "Recompute"}),
        "spec.kv.loadFailurePolicy",
        "set kv.loadFailurePolicy to Fail or drop it",
    ),
    "a host path without its block": (
        changed(group(), spec__model__source={"type": "HostPath"}),
        "spec.model.source.hostPath",
        "hostPath goes with type: HostPath",
    ),
    "a claim with another type": (
        changed(group(), spec__model__source={"type": "Image", "persistentVolumeClaim": {"claimName": "models"}}),
        "spec.model.source.persistentVolumeClaim",
        "goes with type: PersistentVolumeClaim",
    ),
    "a relative model path": (changed(group(), spec__model__path="models/qwen"), "spec.model.path", "should match"),
    "an unknown field in a role": (changed(group(), spec__roles__0__replica=2), "spec.roles[0].replica", "unknown"),
    "a variable twice": (
        changed(group(), spec__engine__env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        "spec.engine.env[1]",
        "Duplicate value",
    ),
    "an eviction of more than there is": (
        changed(pool(), spec__mooncake={"master": {"evictionPercent": 50, "evictionHighWatermarkPercent": 50}}),
        "spec.mooncake.master.evictionPercent",
        "must be below evictionHighWatermarkPercent",
    ),
    "P2P with the native connector": (
        changed(group(), spec__engine__connector="Native", spec__kv={"transfer": "P2P"}),
        "spec.kv.transfer",
        "with Native set kv.transfer to Pool",
    ),
    "prefill split less than decode": (
        changed(group(), spec__roles__1__parallelism={"tensor": 2}),
        "spec.roles",
        "prefill's parallelism.tensor must not be below decode's",
    ),
    "a role against its group": (
        role(replicas=5, groupReplicas=3),
        "spec.replicas",
        "change spec.roles[].replicas there",
    ),
}


@pytest.fixture(scope="module")
def admission(control_plane: Path, crds: None) -> Admission:
    return Admission(control_plane)


@pytest.mark.parametrize("item", ACCEPTED.values(), ids=ACCEPTED)
def test_a_good_object_is_accepted(admission: Admission, item: Object) -> None:
    assert admission.verdict(item) == ""


@pytest.mark.parametrize("item, path, message", REFUSED.values(), ids=REFUSED)
def test_a_bad_object_is_refused_with_path_and_remedy(
    admission: Admission, item: Object, path: str, message: str
) -> None:
    verdict = admission.verdict(item)
    assert path in verdict
    assert message in verdict


def test_kubectl_shows_the_path_and_the_remedy(kubectl: Kubectl, namespace: str) -> None:
    answer = kubectl.apply_refusal(pool(hardware=A3_HCCS, segment={"size": "1536Mi"}), namespace=namespace)
    assert "spec.segment.size: Invalid value: on A3/HCCS spec.segment.size must be a whole multiple of 1Gi" in answer
    assert "memCache" in kubectl.apply_refusal(pool(memCache={}), namespace=namespace)


@pytest.mark.parametrize("row", HARDWARE.values(), ids=lambda row: row.name)
def test_a_segment_must_be_a_multiple_of_what_the_hardware_needs(admission: Admission, row: Hardware) -> None:
    hardware = {"series": row.series, "link": row.link}
    assert admission.verdict(pool(hardware=hardware, segment={"size": str(3 * row.segment_alignment)})) == ""
    verdict = admission.verdict(pool(hardware=hardware, segment={"size": str(3 * row.segment_alignment + 1024)}))
    assert f"spec.segment.size: Invalid value: on {row.name} spec.segment.size must be a whole multiple of" in verdict


@pytest.mark.parametrize("series", SERIES)
def test_a_series_takes_only_the_links_it_has(admission: Admission, series: str) -> None:
    for link in LINKS:
        verdict = admission.verdict(pool(hardware={"series": series, "link": link}, segment={"size": "1Gi"}))
        remedy = f"spec.hardware.link: Invalid value: series {series} has link {' or '.join(links_of(series))}"
        assert (remedy in verdict) == (link not in links_of(series))


def test_the_backend_of_a_pool_cannot_change(kubectl: Kubectl, namespace: str) -> None:
    """One backend exists so far; a copy of the CRD with a second one shows that the rule is there when it comes."""
    definition = copy.deepcopy(crd(KINDS[0]))
    definition["metadata"]["name"] = "kvpools.test.kvpool.dev"
    definition["spec"]["group"] = "test.kvpool.dev"
    del definition["spec"]["names"]["shortNames"], definition["spec"]["names"]["categories"]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["backend"]["enum"].append("Other")
    item = {**pool(), "apiVersion": "test.kvpool.dev/v1alpha1"}
    try:
        kubectl.apply(definition)
        kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "crd/kvpools.test.kvpool.dev")
        kubectl.apply(item, namespace=namespace)
        answer = kubectl.apply_refusal(changed(item, spec__backend="Other"), namespace=namespace)
    finally:
        kubectl.run("delete", "crd", "kvpools.test.kvpool.dev", "--wait=false")
    assert "spec.backend: Invalid value" in answer
    assert "make a second pool and move the groups" in answer


def test_the_status_is_written_apart_from_the_spec(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(pool(), namespace=namespace)
    patch = '{"spec": {"paused": true}, "status": {"members": "1/1"}}'
    flags = ("--namespace", namespace, "--type=merge", "-p", patch, "--dry-run=server", "-o", "json")
    status = json.loads(kubectl.run("patch", "kvpool", "shared", *flags, "--subresource=status"))
    assert status["status"]["members"] == "1/1"
    assert status["spec"] == pool()["spec"]
    spec = json.loads(kubectl.run("patch", "kvpool", "shared", *flags))
    assert spec["spec"]["paused"] is True
    assert spec.get("status", {}).get("members") != "1/1"


def test_nothing_is_defaulted_but_a_roles_replicas(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(pool(), group(), role(), namespace=namespace)
    assert kubectl.get_json("kvpool", "shared", namespace)["spec"] == pool()["spec"]
    assert kubectl.get_json("inferencegroup", "qwen", namespace)["spec"] == group()["spec"]
    assert kubectl.get_json("inferencerole", "qwen-decode", namespace)["spec"] == {"replicas": 1}
