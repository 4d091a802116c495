"""What is known without an engine: plans, messages, and files that must agree with each other."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from agentenvs import deploy
from agentenvs._version import __version__
from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, DataError, ServiceError
from agentenvs.deploy.engine import told
from agentenvs.deploy.images import Image
from agentenvs.harness.check.image import is_image
from agentenvs_servers import configuring
from tests.cli.conftest import cli  # noqa: F401 - a fixture

# ---- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "name"),
    [
        ("household", "agentenvs-household"),
        ("agentenvs/Household-v0", "agentenvs-agentenvs-household-v0"),
        ("My World!", "agentenvs-my-world"),
    ],
)
def test_a_container_is_called_after_its_world(world, name):
    assert deploy.Plan(world, "image").name == name


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"world": "///"}, ConfigError, "'///' is no name of a world"),
        ({"port": 0}, ConfigError, "there is no port 0"),
        ({"port": 70_000}, ConfigError, "there is no port 70000"),
        ({"cpus": 0.0}, ConfigError, "0.0 processors are none"),
        ({"options": ("words=two words",)}, ConfigError, "cannot be handed to a container"),
        ({"data": "nowhere"}, DataError, "there is no folder nowhere"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, more, error, said):
    if "data" in more:
        more = {"data": (tmp_path / "nowhere").relative_to(tmp_path)}
    with pytest.raises(error, match=re.escape(said)):
        deploy.Plan(**{"world": "household", "image": "image", **more})


def test_what_it_knows_reaches_the_server(tmp_path, monkeypatch):
    """Every variable of a plan is one that `serve` heeds."""
    plan = deploy.Plan("household", "image", token="t" * 16, options=("limit=5", "profile=native"), data=tmp_path)
    made = plan.environment()
    assert made["AGENTENVS_SERVE_OPTION"] == "limit=5 profile=native"
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    configuring.read({}, others=("envs", "option", "data"))
    assert "t" * 16 not in repr(plan)


def test_what_is_up_and_was_asked_for_otherwise_is_named(tmp_path):
    attrs = {
        "Image": "sha256:1",
        "Config": {"Image": "image", "Env": ["AGENTENVS_SERVE_OPTION=limit=5"]},
        "HostConfig": {
            "Memory": 1 << 30,
            "NanoCpus": 10**9,
            "NetworkMode": "default",
            "PortBindings": {"8000/tcp": [{"HostPort": "8000"}]},
        },
        "Mounts": [{"Destination": "/prepared", "Source": str(tmp_path)}, {"Destination": "/data", "Name": "x"}],
    }
    same = deploy.Plan("household", "image", options=("limit=5",), prepared=tmp_path)
    assert same.differs(attrs, "sha256:1") == same.differs(attrs, None) == ()
    other = deploy.Plan("household", "image", port=8001, memory="2g", cpus=0.5, data=tmp_path, network="lab")
    expected = ("image", "port", "memory", "cpus", "network", "options", "data", "prepared")
    assert other.differs(attrs, "sha256:2") == expected


# ---- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["up", "household"], ["down"], ["ps"], ["logs", "household"]], ids=lambda v: v[0])
def test_without_an_engine_it_says_so(cli, monkeypatch, tmp_path, verb):  # noqa: F811
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    ran = cli(*verb)
    assert (ran.code, ran.out) == (3, "")
    assert "no Docker engine answers" in ran.err
    assert "start Docker, or set DOCKER_HOST" in ran.err
    assert "Traceback" not in ran.err


def test_one_port_is_for_one_world(cli):  # noqa: F811
    ran = cli("up", "household", "webshop", "--port", "8000")
    assert ran.code == 2
    assert "one port is for one world" in ran.err


@pytest.mark.parametrize("host", ["tcp://10.1.2.3:2375", "tcp://lab:2376", "ssh://me@lab"])
def test_an_engine_elsewhere_is_refused(monkeypatch, host):
    import docker

    class Elsewhere:
        class api:
            base_url = {"tcp://10.1.2.3:2375": "http://10.1.2.3:2375", "tcp://lab:2376": "https://lab:2376"}.get(
                host, "http+docker://ssh"
            )

        def ping(self):
            return True

        def close(self):
            pass

    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.setattr(docker, "from_env", lambda **_: Elsewhere())
    with pytest.raises(ConfigError, match=f"on another machine, {re.escape(host)}"):
        deploy.connect()


def test_a_socket_that_may_not_be_opened_is_told(monkeypatch):
    import docker

    def refuse(**_):
        raise docker.errors.DockerException("while fetching: PermissionError(13)") from PermissionError(13, "denied")

    monkeypatch.setattr(docker, "from_env", refuse)
    with pytest.raises(ServiceError, match="group docker"):
        deploy.connect()


def test_what_the_engine_refuses_is_told_in_its_words():
    import docker
    import requests

    with pytest.raises(ConfigError, match="name another --port"), told("start x"):
        raise docker.errors.APIError("500", explanation="Bind for 0.0.0.0:80 failed: port is already allocated")
    with pytest.raises(ConfigError, match="name fewer: --cpus"), told("start x"):
        raise docker.errors.APIError("400", explanation="Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs")
    with pytest.raises(ServiceError, match="did not start x"), told("start x"):
        raise requests.ConnectionError("gone")
    with pytest.raises(DataError, match="own"), told("start x"):
        raise DataError("own")


def test_an_image_is_checked_only_where_nothing_else_has_the_name(cli, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    assert not is_image("nothing:1")
    assert is_image("docker:nothing:1")
    ran = cli("check", "nothing:1")
    assert "cannot be found" in ran.err or "cannot be imported" in ran.err
    ran = cli("check", "docker:nothing:1", "--quick")
    assert (ran.code, "no Docker engine answers" in ran.err) == (3, True)
    ran = cli("check", "docker:nothing:1", "-o", "limit=3")
    assert (ran.code, "cannot be given here" in ran.err) == (2, True)


def test_secrets_of_variables_and_history_are_told_without_their_values():
    image = Image(
        "x",
        "",
        "",
        (),
        (),
        {},
        {"A_TOKEN": "v1", "KEYBOARD": "v2", "PASSWORD": "", "X_WITHOUT_TOKEN": "v4"},
        "",
        0,
        ("|1 PIP_SECRET=v3 sh",),
    )
    assert image.is_root
    assert list(image.secrets()) == ["the variable A_TOKEN has a value", "the history shows a value of PIP_SECRET"]


# ---- files that must agree -------------------------------------------------------------------------------------------


def test_the_locks_are_not_stale(root):
    done = subprocess.run(
        ["sh", "servers/image/lock.sh", "--check"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_line_of_a_lock_has_its_hashes(root):
    for name in ("build", "requirements"):
        text = (root / "servers" / "image" / f"{name}.lock").read_text()
        entries = re.split(r"\n(?=[a-z])", text.partition("\n")[2])
        assert all(re.match(r"[a-z0-9._-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)
        assert "://" not in text


def test_the_dockerfiles_say_the_version_once_more(root):
    text = (root / "servers" / "Dockerfile").read_text()
    assert set(re.findall(r"ARG VERSION=(\S+)", text)) == {__version__}
    assert f"agentenvs:{__version__}" in text
    assert f"agentenvs:{__version__}" == deploy.IMAGE
    assert f"AGENTENVS_IMAGE:-agentenvs:{__version__}" in (root / "servers" / "compose.yaml").read_text()


def test_every_service_has_limits_and_no_rights(root):
    form = yaml.safe_load((root / "servers" / "compose.yaml").read_text())
    for name, service in form["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(service[limit] for limit in ("mem_limit", "cpus", "pids_limit", "tmpfs", "logging")), name
        assert all(port.startswith("${AGENTENVS_ADDRESS:-127.0.0.1}:") for port in service.get("ports", ())), name
        if "AGENTENVS_SERVE_ENVS" in service.get("environment", {}):
            assert "AGENTENVS_TOKEN" in service["environment"], name


def test_every_world_has_its_service(root):
    form = yaml.safe_load((root / "servers" / "compose.yaml").read_text())
    worlds = {registry.spec(env_id).slug for env_id in registry.built_in_ids()}
    assert worlds <= set(form["services"])


def test_settings_in_images_and_in_compose_are_settings(root):
    """A name that is none would keep the server from starting."""
    from agentenvs_servers.settings import documented

    known = {f"AGENTENVS_SERVE_{one.name.upper()}" for one in documented()} | {
        f"AGENTENVS_SERVE_{name}" for name in ("ENVS", "OPTION", "DATA")
    }
    templates = root / "agentenvs" / "cli" / "templates" / "package" / "Dockerfile.in"
    files = [root / "servers" / "Dockerfile", root / "servers" / "compose.yaml", templates]
    files += sorted((root / "servers" / "k8s").rglob("*.yaml"))
    for file in files:
        used = set(re.findall(r"AGENTENVS_SERVE_[A-Z_]+", file.read_text()))
        assert used <= known, file
