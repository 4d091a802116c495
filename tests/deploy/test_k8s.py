"""servers/k8s: rendered as they are applied, held against pinned schemas of Kubernetes, the image and the settings."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from agentenvs.client import RemoteEnv
from agentenvs.core import registry
from agentenvs_servers import configuring
from agentenvs_servers.run import background

FOLDER = Path(__file__).resolve().parents[2] / "servers" / "k8s"
WORLDS = sorted(folder.name for folder in (FOLDER / "worlds").iterdir())
VERSION = "1.32"
"""Of the schemas; it does not move with what is installed."""

SCOPES = {"ServiceMonitor": {"selector", "endpoints", "targetLabels"}}
"""Kinds that are not Kubernetes' own: the fields of their spec that may be used."""


def render(folder):
    """Return the resources of a folder, as `kubectl apply -k` would send them."""
    place = Path(os.environ.get("AGENTENVS_TEST_BIN", Path.home() / ".cache" / "agentenvs" / "bin"))
    program = shutil.which("kubectl") or shutil.which("kubectl", path=str(place))
    if program is None:
        pytest.skip(f"NO KUBECTL, so no manifest is rendered: sh tests/deploy/kubectl.sh {place}")
    done = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module", params=WORLDS)
def resources(request):
    return {item["kind"]: item for item in render(FOLDER / "worlds" / request.param)}


def validate(resource):
    """Refuse what Kubernetes would: unknown fields, wrong types, what is missing."""
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    if resource["kind"] in SCOPES:
        assert set(resource["spec"]) <= SCOPES[resource["kind"]]
    else:
        checker.validate(resource, VERSION, strict=True)


def pods(resources):
    """Return the pods that a world's resources would make, by kind of their maker."""
    return {kind: item["spec"]["template"] for kind, item in resources.items() if kind in ("Deployment", "Job")}


def test_every_world_of_the_suite_has_a_folder():
    assert {registry.spec(env_id).slug for env_id in registry.built_in_ids()} <= set(WORLDS)


def test_all_that_is_needed_is_there(resources):
    kinds = {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap"}
    assert kinds <= set(resources)
    assert ("Job" in resources) == ("PersistentVolumeClaim" in resources)


def test_the_schemas_take_them(resources):
    for item in resources.values():
        validate(item)


def test_the_schemas_refuse_what_is_wrong(resources):
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for path, value in ((("spec", "strategie"), {}), (("spec", "template", "spec", "containers"), "many")):
        broken = copy.deepcopy(resources["Deployment"])
        *way, last = path
        inner = broken
        for name in way:
            inner = inner[name]
        inner[last] = value
        with pytest.raises(checker.ValidationError):
            checker.validate(broken, VERSION, strict=True)


def test_monitoring_is_sound():
    found = {item["kind"]: item for item in render(FOLDER / "monitoring")}
    for item in found.values():
        validate(item)
    dashboard = json.loads(found["ConfigMap"]["data"]["agentenvs.json"])
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(set(places)) == len(places)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a server that played tells: the names of its metrics, each with the labels of its samples."""
    with background(["household"], journal=str(tmp_path_factory.mktemp("journal") / "j")) as url:
        with RemoteEnv("household", url) as env:
            env.reset()
            env.step("look")
            text = httpx.get(f"{url}/metrics").text
            env.finish("abandoned")
        httpx.get(f"{url}/v1/sessions/none")
        idle = httpx.get(f"{url}/metrics").text
        text += idle
    found = {name: set() for name in re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)}
    for name, labels in re.findall(r"^(\w+)(?:{(.*)})? ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    return found, idle


def test_what_the_dashboard_asks_for_is_told(told):
    """Every metric of every query, and the labels that it is grouped by; those of pods are the cluster's."""
    found, _ = told
    of_cluster = {"pod", "app_kubernetes_io_instance"}
    dashboard = json.loads((FOLDER / "monitoring" / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    assert len(queries) > len(dashboard["panels"])
    for query in queries:
        names = re.findall(r"\b(?:agentenvs|process)_[a-z_]+", query)
        assert names, query
        for name in names:
            labels = found.get(name) or found.get(re.sub(r"_(bucket|count|sum)$", "", name))
            assert labels is not None, f"no server tells {name}"
            grouped = {label for by in re.findall(r"by \((.*?)\)", query) for label in by.split(", ")}
            assert grouped - of_cluster <= labels, query
            assert set(re.findall(r"(\w+)[=!]~?\"", query)) <= of_cluster, query


def test_the_metric_of_the_autoscaler_is_told_by_a_server_without_sessions(told):
    """Where it is missing of a pod, the autoscaler takes that pod for a full one and never goes back."""
    (name,) = re.findall(r"metric: {name: (\w+)}", (FOLDER / "base" / "autoscaler.yaml").read_text())
    assert re.search(rf"^{name}{{[^}}]*}} 0$", told[1], re.MULTILINE)


def test_everything_points_at_everything(resources):
    """What the cluster would only notice at run time: names and labels that must agree."""
    deployment, template = resources["Deployment"], resources["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        resources["Service"]["spec"]["selector"],
        resources["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        resources["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() and len(selector) == 2 for selector in selectors)
    assert resources["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"]
    for template in pods(resources).values():
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        for container in template["spec"]["containers"] + template["spec"].get("initContainers", []):
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
            assert container["envFrom"][0]["configMapRef"]["name"] == resources["ConfigMap"]["metadata"]["name"]
        if claim := volumes.get("prepared", {}).get("persistentVolumeClaim"):
            assert claim["claimName"] == resources["PersistentVolumeClaim"]["metadata"]["name"]
    (job,) = [resources["Job"]] if "Job" in resources else [None]
    if job is not None:
        assert not selectors[1].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_pods_are_shut_off_as_the_image_is_made_to_be(resources, root):
    dockerfile = (root / "servers" / "Dockerfile").read_text()
    (user,) = re.findall(r"^USER (\d+):", dockerfile, re.MULTILINE)
    for template in pods(resources).values():
        spec = template["spec"]
        assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, int(user))
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"] + spec.get("initContainers", []):
            shut = container["securityContext"]
            assert (shut["readOnlyRootFilesystem"], shut["allowPrivilegeEscalation"]) == (True, False)
            assert shut["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= set(container["resources"]["limits"])
    (server,) = resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert [port["containerPort"] for port in server["ports"]] == [8000]
    assert server["image"] == f"agentenvs:{re.findall('ARG VERSION=(.*)', dockerfile)[0]}"


def test_settings_are_settings_and_the_grace_is_longer_than_the_drain(resources, monkeypatch):
    data = resources["ConfigMap"]["data"]
    for name, value in data.items():
        monkeypatch.setenv(name, value)
    read = configuring.read({}, others=("envs",))
    stop = 10  # seconds in which the server answers what runs, after it has drained
    grace = resources["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > read.settings.drain_seconds + stop + 5
    (server,) = resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    probe = server["readinessProbe"]
    assert read.settings.drain_seconds > 2 * probe["periodSeconds"] * probe["failureThreshold"]
    assert data["AGENTENVS_SERVE_ENVS"] in resources["Deployment"]["metadata"]["name"]
    aimed = int(resources["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
    most = resources["HorizontalPodAutoscaler"]["spec"]["maxReplicas"] * read.settings.max_live
    assert aimed < read.settings.max_live
    assert read.settings.max_sessions <= most


def test_the_capacity_of_the_page_is_what_the_figures_give(root):
    done = subprocess.run(
        [sys.executable, "servers/k8s/capacity.py", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
