"""The manifests of deploy/kubernetes fit the schemas of Kubernetes, and their commands are ours.

What only a cluster can show: that probes, budgets and the autoscaler do what they say, that the
network policies are enforced (a cluster needs a network that does), that the profile RuntimeDefault
lets Landlock through there, that storage may be shared, and that agent-sandbox makes pods of its
template.
"""

import importlib
import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.cli import options
from tests.harness.process import kubernetes
from tests.harness.process.kubernetes import CREATED, OK, Cluster
from tests.places import ROOT

FOLDER: Final = ROOT / "deploy" / "kubernetes"
NATS: Final = ROOT / "deploy" / "nats"
VERSIONS: Final = ("1.31", "1.37")
Json = dict[str, Any]
# These have no types.
kubernetes_validate: Any = importlib.import_module("kubernetes_validate")
VALIDATOR: Any = importlib.import_module("jsonschema").Draft202012Validator
yaml: Any = importlib.import_module("yaml")


def manifests(name: str) -> list[Json]:
    """The objects of one file."""
    return [*yaml.safe_load_all((FOLDER / name).read_text())]


EVERY: Final = [
    (f"{path.stem}: {each['kind']}", each)
    for path in sorted(FOLDER.glob("*.yaml"))
    for each in manifests(path.name)
]
OURS: Final = [pair for pair in EVERY if "agents.x-k8s.io" not in pair[1]["apiVersion"]]


def pods() -> list[tuple[str, Json]]:
    """The templates of pods, by the file and the kind that makes them."""
    found = []
    for name, each in EVERY:
        template = each["spec"].get("template") or each["spec"].get("podTemplate")
        if template is not None:
            found.append((name, template))
    return found


each_pod: Final = pytest.mark.parametrize(
    "pod", [pod for _, pod in pods()], ids=[name for name, _ in pods()]
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [one for _, one in OURS], ids=[name for name, _ in OURS])
def test_kubernetes_takes_it(manifest: Json, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not all(map(shutil.which, ("kube-apiserver", "etcd"))):
        pytest.skip("`kube-apiserver` and `etcd` are not on PATH")
    with kubernetes.running(tmp_path_factory.mktemp("cluster")) as server:
        yield server


def test_a_real_server_takes_all_of_it(cluster: Cluster) -> None:
    """The order of the files does not matter, a second time changes nothing, and another digest of
    what the workers run is another revision of their Deployment alone."""
    for _, manifest in OURS:
        status, answer = cluster.apply(manifest)
        assert status == CREATED, answer
    before = cluster.generations(OURS)
    for _, manifest in OURS:
        assert cluster.apply(manifest)[0] == OK
    assert cluster.generations(OURS) == before
    (worker,) = [one for name, one in OURS if name == "worker: Deployment"]
    text = json.dumps(worker)
    assert text.count("@sha256:" + "0" * 64) == 1
    assert cluster.apply(json.loads(text.replace("0" * 64, "1" * 64)))[0] == OK
    changed = {name for name, one in cluster.generations(OURS).items() if one != before[name]}
    assert changed == {"worker: Deployment"}
    wrong = json.loads(text.replace('"replicas"', '"replicaz"'))
    status, answer = cluster.apply(wrong)
    assert status != OK
    assert "replicaz" in answer


def test_a_mistake_is_found() -> None:
    wrong = json.loads(json.dumps(manifests("gateway.yaml")[0]))
    wrong["spec"]["portz"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


BLUEPRINT: Final[Json] = {
    "podTemplate": {"type": "object", "required": ["spec"]},
    "volumeClaimTemplates": {"type": "array"},
    "service": {"type": "boolean"},
}
SANDBOXES: Final[dict[str, Json]] = {
    "SandboxTemplate": {
        "required": ["podTemplate"],
        "additionalProperties": False,
        "properties": {
            **BLUEPRINT,
            "networkPolicyManagement": {"enum": ["Managed", "Unmanaged"]},
            "networkPolicy": {
                "additionalProperties": False,
                "properties": {"ingress": {"type": "array"}, "egress": {"type": "array"}},
            },
            "envVarsInjectionPolicy": {"enum": ["Allowed", "Overrides", "Disallowed"]},
            "volumeClaimTemplatesPolicy": {"enum": ["Allowed", "Overrides", "Disallowed"]},
        },
    },
    "SandboxWarmPool": {
        "required": ["sandboxTemplateRef"],
        "additionalProperties": False,
        "properties": {
            "replicas": {"type": "integer", "minimum": 0},
            "sandboxTemplateRef": {
                "required": ["name"],
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}},
            },
            "updateStrategy": {"properties": {"type": {"enum": ["Recreate", "OnReplenish"]}}},
        },
    },
}
"""The fields of `spec` in agent-sandbox v0.5, extensions.agents.x-k8s.io/v1beta1: written down by
hand from its Go types, since no package registry has its definitions."""


def test_agent_sandbox_has_the_fields_of_the_template() -> None:
    found = manifests("worker-sandboxes.yaml")
    assert [each["kind"] for each in found] == list(SANDBOXES)
    for each in found:
        assert each["apiVersion"] == "extensions.agents.x-k8s.io/v1beta1"
        VALIDATOR(SANDBOXES[each["kind"]]).validate(each["spec"])
    template, pool = found
    assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"}}
    kubernetes_validate.validate(
        {**pod, "spec": template["spec"]["podTemplate"]["spec"]}, VERSIONS[-1], strict=True
    )
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "w"},
        "spec": {"podSelector": {}, **template["spec"]["networkPolicy"]},
    }
    kubernetes_validate.validate(policy, VERSIONS[-1], strict=True)


def test_a_sandbox_is_the_worker_of_the_deployment() -> None:
    """The same pod and the same wall."""
    by_kind = {each["kind"]: each["spec"] for each in manifests("worker.yaml")}
    template = manifests("worker-sandboxes.yaml")[0]["spec"]
    assert template["podTemplate"]["spec"] == by_kind["Deployment"]["template"]["spec"]
    wall = by_kind["NetworkPolicy"]
    assert template["networkPolicy"] == {key: wall[key] for key in ("ingress", "egress")}


@each_pod
def test_a_pod_has_no_rights(pod: Json) -> None:
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    starts_others = "--run-as=conductor" in spec["containers"][0]["command"]
    assert starts_others == (spec["containers"][0]["name"] == "worker")
    if not starts_others:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] >= 10_000
    capabilities: Json = {"drop": ["ALL"]}
    if starts_others:
        capabilities["add"] = ["KILL", "SETGID", "SETUID"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": capabilities,
        }
        assert "memory" in container["resources"]["limits"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claimed = {"data"} if container["name"] == "nats" else set()
        assert mounted == {volume["name"] for volume in spec["volumes"]} | claimed


@pytest.mark.parametrize("name", ["worker.yaml", "worker-sandboxes.yaml"])
def test_an_agent_of_a_worker_reaches_neither_its_login_nor_its_state(name: str) -> None:
    """The login and the state are below a folder of root's that nobody else may enter."""
    (pod,) = [template["spec"] for one, template in pods() if one.startswith(f"{name[:-5]}: ")]
    (container,) = pod["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = [volume["name"] for volume in pod["volumes"] if "secret" in volume]
    assert secrets
    assert all(places[one].startswith("/root/") for one in secrets)
    (home,) = [one["value"] for one in container["env"] if one["name"] == "HOME"]
    assert home == places["state"]
    assert home.startswith("/root/")


@each_pod
def test_a_pod_has_time_to_drain_and_says_how_it_is(pod: Json) -> None:
    (container,) = pod["spec"]["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    if container["name"] == "nats":
        return
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    wind_down = [word for word in container["command"] if word.startswith("serve.wind-down=")]
    longest = float(wind_down[0].partition("=")[2]) if wind_down else 30.0
    before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    waits = float(before[1]) if before else 0.0
    assert pod["spec"]["terminationGracePeriodSeconds"] > waits + longest + 10


@each_pod
def test_the_command_of_a_pod_is_ours(pod: Json) -> None:
    (container,) = pod["spec"]["containers"]
    if container["name"] == "nats":
        return
    program, group, command, *rest = container["command"]
    assert (program, group, command) == ("conductor", "fleet", container["name"])
    known = {flag for row in options.of(f"fleet {command}") for flag in row.flags.split()}
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= known
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for word in rest:
        value = word.partition("=")[2]
        assert not value.startswith("/") or any(value.startswith(f"{each}/") for each in mounts)


def test_selectors_and_references_meet() -> None:
    """The names in a service, a budget, a policy or an autoscaler lead to a pod that is there."""
    labels = [pod["metadata"]["labels"] for _, pod in pods()]
    for name, each in EVERY:
        spec = each["spec"]
        chosen = spec.get("podSelector") or spec.get("selector") or {}
        wanted = chosen.get("matchLabels", chosen)
        assert any(wanted.items() <= one.items() for one in labels), name
    (scaler,) = [one for _, one in EVERY if one["kind"] == "HorizontalPodAutoscaler"]
    target = scaler["spec"]["scaleTargetRef"]
    assert any(
        (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])
        for _, one in EVERY
    )


def test_a_worker_reaches_nats_its_registry_and_names_alone() -> None:
    (wall,) = [one["spec"] for one in manifests("worker.yaml") if one["kind"] == "NetworkPolicy"]
    assert wall["policyTypes"] == ["Ingress", "Egress"]
    reached = [{port["port"] for port in rule["ports"]} for rule in wall["egress"]]
    assert reached == [{4222}, {443}, {53}]
    assert all("to" in rule for rule in wall["egress"])


def test_nats_reads_its_configuration(tmp_path: Path) -> None:
    for file in NATS.glob("*.conf"):
        shutil.copy(file, tmp_path)
    keys = tmp_path / "tls"
    keys.mkdir()
    openssl = shutil.which("openssl")
    assert openssl is not None
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-subj", "/CN=nats", "-keyout", "tls.key", "-out", "tls.crt"),
        ],
        cwd=keys,
        check=True,
        capture_output=True,
    )
    for copy in ("ca.crt", "cluster-ca.crt"):
        shutil.copy(keys / "tls.crt", keys / copy)
    program = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    assert program is not None
    done = subprocess.run(
        [program, "-c", str(tmp_path / "nats.conf"), "-t"],
        cwd=tmp_path,
        env={"SERVER_NAME": "nats-0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (NATS / "nats.conf").read_text()
    named = set(re.findall(r'"(tls/[^"]+)"', text)) | set(re.findall(r'include "(.+)"', text))
    (nats,) = [pod for name, pod in pods() if name.startswith("nats")]
    (config,) = [one for one in nats["spec"]["volumes"] if one["name"] == "config"]
    sources = config["projected"]["sources"]
    items = [one for each in sources if "secret" in each for one in each["secret"].get("items", [])]
    assert {item["path"] for item in items} | {"tenants.conf"} == named
