"""The suite's image: what it is made of, what it says of itself, and what its container can and cannot do."""

from __future__ import annotations

import json
import re
import subprocess

import httpx
import pytest
from websockets.sync.client import connect

from agentenvs import deploy
from agentenvs._version import __version__
from agentenvs.client import RemoteEnv
from agentenvs.core.errors import ConfigError
from agentenvs.deploy import images
from agentenvs.harness.check.image import check_image
from tests.deploy.engines import BASE, IMAGE, TOKEN, command, docker, started, until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker"), pytest.mark.timeout(600)]

LARGEST = 450 * 10**6


@pytest.fixture(scope="module")
def container(image):
    """A container of the image, confined: its name and its address."""
    with started(image) as found:
        yield found


def inside(name, code):
    """Run Python in a container; return what it printed, or the name of what it raised."""
    caught = f"try:\n    {code}\nexcept OSError as error:\n    print(type(error).__name__, error.errno)"
    return docker("exec", name, "python", "-I", "-c", caught)


# ---- the image -------------------------------------------------------------------------------------------------------


def test_it_says_what_it_is(engine, image):
    seen = deploy.look(engine, image)
    assert seen.labels["org.opencontainers.image.version"] == __version__
    assert seen.labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert (seen.user, seen.ports, seen.is_root) == ("10001:10001", ("8000/tcp",), False)
    assert "curl" not in " ".join(seen.healthcheck)
    assert seen.bytes < LARGEST


def test_nothing_secret_and_nothing_of_the_checkout_lies_in_its_layers(engine, image):
    """No token, key or sealed secret, no tests, records, data or history, no gold: in any layer, hidden or not."""
    assert list(deploy.look(engine, image).secrets()) == []
    own = []
    for path, data in images.files(engine, image):
        assert not images.has_key(data), path
        if path.startswith("opt/agentenvs/") or "agentenvs" in path:
            own.append(path)
    assert any(path.endswith("agentenvs_servers/run.py") for path in own)
    kinds = r"(^|/)((?<!harness/)runs|records|\.git|golden)/|\.(jsonl|pddl|tw-pddl|db|env)$|traj_data"
    assert [path for path in own if re.search(kinds, path)] == []


def test_a_file_with_a_secret_in_a_hidden_layer_is_found(engine, image, tmp_path):
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nUSER 0\nENV LAB_API_KEY=abc\nARG HF_TOKEN=hf\n"
        "COPY notes .env /root/\nRUN rm /root/notes /root/.env\nUSER root\n"
    )
    (tmp_path / "notes").write_text(f"key: AKIA{'A' * 16}\n")
    (tmp_path / ".env").write_text("X=1\n")
    tag = f"{IMAGE}-leaky"
    command("docker", "build", "-q", "-t", tag, ".", folder=tmp_path)
    try:
        seen = deploy.look(engine, tag)
        assert seen.is_root
        said = list(seen.secrets())
        assert "the variable LAB_API_KEY has a value" in said
        assert "abc" not in " ".join(said)
        found = list(deploy.secret_files(engine, tag))
        assert {line.partition(":")[0] for line in found} == {"/root/notes", "/root/.env"}
    finally:
        docker("rmi", "-f", tag)


def test_the_bill_of_materials_is_one_and_lists_what_is_installed(image):
    text = docker("run", "--rm", image, "cat", "/opt/agentenvs/sbom.cdx.json")
    form = json.loads(text)
    assert form["metadata"]["component"]["purl"] == f"pkg:pypi/agentenvs@{__version__}"
    listed = {part["purl"].partition("@")[0] for part in form["components"]}
    assert {"pkg:pypi/fastapi", "pkg:pypi/pip", "pkg:generic/python", "pkg:deb/debian/libc6"} <= listed
    code = "import importlib.metadata as m, json; print(json.dumps([d.metadata['Name'] for d in m.distributions()]))"
    names = json.loads(docker("run", "--rm", image, "python", "-I", "-c", code))
    assert {f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}" for name in names} - listed == {"pkg:pypi/agentenvs"}
    schema = pytest.importorskip("cyclonedx.schema", reason="cyclonedx-python-lib is not installed")
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None


def test_a_label_of_another_version_is_refused(image, root):
    done = subprocess.run(
        ["docker", "build", "-f", "servers/Dockerfile", "--build-arg", "VERSION=9.9.9", "--target", "build", "."],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"the image is to be labelled 9.9.9, but the wheel is agentenvs {__version__}" in done.stderr


def test_without_a_token_the_openenv_door_is_open_and_no_other(image):
    """What `from_docker_image` of OpenEnv's client does: no flag, no variable."""
    with started(image, token=None) as (_, url):
        assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
        for shut in ("/v1/envs", "/v1/sessions", "/metrics"):
            assert httpx.get(url + shut).status_code == 404
        with connect(url.replace("http", "ws") + "/ws") as socket:
            socket.send(json.dumps({"type": "reset", "data": {"seed": 7}}))
            answer = json.loads(socket.recv(timeout=30))
        assert (answer["type"], answer["data"]["done"]) == ("observation", False)


def test_any_verb_can_be_run(image):
    assert docker("run", "--rm", image, "agentenvs", "--version") == f"agentenvs {__version__}"


# ---- its container ---------------------------------------------------------------------------------------------------


def test_it_is_healthy_and_closed(container):
    name, url = container
    until(lambda: docker("inspect", "-f", "{{.State.Health.Status}}", name) == "healthy", "healthy")
    assert httpx.get(f"{url}/v1/envs").status_code == 401
    assert httpx.get(f"{url}/v1/envs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_it_has_no_rights(container):
    name, _ = container
    status = docker("exec", name, "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4
    assert (int(fields["CapEff"], 16), int(fields["CapBnd"], 16), fields["NoNewPrivs"]) == (0, 0, "1")
    assert fields["Seccomp"] == "2"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('/opt/agentenvs/x', 'w')", "OSError 30"),
        ("open('/etc/x', 'w')", "OSError 30"),
        ("import os; os.setuid(0)", "PermissionError 1"),
        ("import os; os.chown('/tmp', 0, 0)", "PermissionError 1"),
        ("open('/tmp/x', 'wb').write(b'x' * 17_000_000)", "OSError 28"),
    ],
    ids=["read-only code", "read-only system", "no other user", "no capability", "little scratch"],
)
def test_it_may_not(container, code, said):
    assert inside(container[0], code) == said
    inside(container[0], "import os; os.unlink('/tmp/x')")


def test_its_processes_are_counted(container):
    code = (
        "import os, signal\n"
        "made = []\n"
        "try:\n"
        "    while len(made) < 200:\n"
        "        pid = os.fork()\n"
        "        if not pid: signal.pause()\n"
        "        made.append(pid)\n"
        "except OSError as error: print(error.errno, len(made) < 64)\n"
        "for pid in made: os.kill(pid, 9)\n"
    )
    assert docker("exec", container[0], "python", "-I", "-c", code) == "11 True"


def test_its_memory_ends(image):
    """What asks for more than its share is killed, and nothing else on the machine is."""
    with started(image) as (name, url):
        done = command("docker", "exec", name, "python", "-I", "-c", "x = bytearray(10**9)", check=False)
        assert done.returncode == 137
        assert httpx.get(f"{url}/health").status_code == 200


def test_sigterm_drains(image):
    """In the middle of an episode: running sessions are answered, readiness is withdrawn, and it ends in order."""
    with started(image, "-e", "AGENTENVS_SERVE_DRAIN_SECONDS=3") as (name, url):
        with RemoteEnv("household", url, token=TOKEN) as env:
            env.reset()
            env.step("look")
            docker("kill", "--signal", "TERM", name)
            until(lambda: httpx.get(f"{url}/ready").status_code == 503, "not ready any more")
            assert not env.step("inventory").terminated
        assert docker("wait", name) == "0"


def test_the_check_of_an_image_that_does_not_run_says_what_was_seen(engine):
    """Python alone: it ends at once, and it is root's."""
    with pytest.raises(ConfigError, match="ended with exit code 0") as refused:
        check_image(f"docker:{BASE}", quick=True)
    assert "it runs as root" in refused.value.why


def test_the_check_passes(image, capfd):
    report = check_image(f"docker:{image}", quick=True, split="dev")
    assert report.passed, str(report)
    about = {finding.check for finding in report.findings if finding.theme == "image"}
    assert {"user", "layers", "confined", "healthy", "closed", "drains"} <= about
