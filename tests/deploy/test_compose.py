"""servers/compose.yaml on a real engine: worlds, a shared journal, two replicas behind nginx."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time

import httpx
import pytest

from agentenvs.client import RemoteEnv
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay
from agentenvs.core.task import TaskRef
from tests.deploy.engines import BASE, IMAGE, ROOT, TOKEN, command, docker, ready, until
from tests.servers.test_proxies import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker"), pytest.mark.timeout(900)]

EPISODES = 200
ROUTES = ("01", "02")
CLI = (sys.executable, "-m", "agentenvs.cli")


class Project:
    """The compose file under a name of its own, on ports and addresses of its own."""

    def __init__(self):
        self.name = f"agentenvs-test-{secrets.token_hex(3)}"
        household, searchworld, webshop, proxy = free_ports(4)
        self.url, self.proxy = f"http://127.0.0.1:{household}", f"http://127.0.0.1:{proxy}"
        self.searchworld, self.webshop = f"http://127.0.0.1:{searchworld}", f"http://127.0.0.1:{webshop}"
        self.variables = {
            "AGENTENVS_IMAGE": IMAGE,
            "AGENTENVS_TOKEN": TOKEN,
            "AGENTENVS_DEBIAN": BASE,
            "AGENTENVS_HOUSEHOLD_PORT": str(household),
            "AGENTENVS_SEARCHWORLD_PORT": str(searchworld),
            "AGENTENVS_WEBSHOP_PORT": str(webshop),
            "AGENTENVS_PROXY_PORT": str(proxy),
            "AGENTENVS_SUBNET": f"10.213.{100 + secrets.randbelow(100)}",
        }
        self.change_password()

    def change_password(self):
        password = self.variables["POSTGRES_PASSWORD"] = secrets.token_hex(8)
        self.shared = {"AGENTENVS_JOURNALS": f"postgresql://agentenvs:{password}@postgres"}

    def compose(self, *arguments, check=True, **more):
        given = ("docker", "compose", "-p", self.name, "-f", "servers/compose.yaml", *arguments)
        return command(*given, check=check, variables={**self.variables, **more})

    def container(self, service):
        return f"{self.name}-{service}-1"


@pytest.fixture
def project(image):
    if command("docker", "compose", "version", check=False).returncode:
        pytest.skip("NO DOCKER COMPOSE: the engine's plugin of that name is not installed")
    made = Project()
    try:
        yield made
    finally:
        made.compose("--profile", "*", "down", "--volumes", "--timeout", "1")


def test_a_token_is_asked_for(project):
    project.variables["AGENTENVS_TOKEN"] = ""
    done = project.compose("config", check=False)
    project.variables["AGENTENVS_TOKEN"] = TOKEN
    assert done.returncode != 0
    assert "AGENTENVS_TOKEN" in done.stderr


def test_one_world(project):
    """Up, healthy, shut off; its sessions are there again after the container is replaced."""
    project.compose("up", "--no-build", "--wait", "household")
    form = json.loads(docker("inspect", project.container("household")))[0]["HostConfig"]
    assert (form["Memory"], form["ReadonlyRootfs"], form["CapDrop"]) == (1 << 30, True, ["ALL"])
    assert httpx.get(f"{project.url}/v1/envs").status_code == 401
    with RemoteEnv("household", project.url, token=TOKEN) as env:
        env.reset()
        env.step("look")
        project.compose("up", "--no-build", "--wait", "--force-recreate", "household")
        assert env.step("inventory").observation.text
        assert env.turn == 2


def test_worlds_that_are_prepared_first(project, record_property):
    """Made once by containers of their own, read by the worlds', which cannot write it, and are soon there again."""
    project.compose("up", "--no-build", "--wait", "searchworld", "webshop")
    assert docker("wait", *(project.container(f"{world}-prepare") for world in ("searchworld", "webshop"))) == "0\n0"
    with RemoteEnv("webshop", project.webshop, token=TOKEN) as env:
        env.reset()
        assert "Page 1" in env.step("search[a red lamp]").observation.text
    name = project.container("searchworld")
    assert command("docker", "exec", name, "touch", "/prepared/x", check=False).returncode == 1
    assert docker("exec", name, "sh", "-c", "ls /data/cache 2>/dev/null || true") == ""
    with RemoteEnv("searchworld", project.searchworld, token=TOKEN) as env:
        env.reset(TaskRef("dev", 0))
        assert "/prepared/searchworld-universe-" in docker("exec", name, "sh", "-c", "cat /proc/[0-9]*/maps")
        assert env.step({"tool": "search", "arguments": {"query": "born"}}).observation.text
        docker("kill", name)
        began = time.monotonic()
        docker("start", name)
        until(lambda: ready(project.searchworld), "the world is back")
        record_property("seconds until it was ready again", round(time.monotonic() - began, 2))
        assert not env.step({"tool": "search", "arguments": {"query": "lives in"}}).terminated


def test_a_journal_in_postgres(project):
    """Servers and database are killed, and the password changed, in the middle of an episode, and it goes on."""
    project.compose("--profile", "postgres", "build", "-q", "postgres")
    up = ("--profile", "postgres", "up", "--no-build", "--wait", "household", "postgres")
    project.compose(*up, **project.shared)
    with RemoteEnv("household", project.url, token=TOKEN) as env:
        env.reset()
        env.step("look")
        for service in ("postgres", "household"):
            docker("kill", project.container(service))
            docker("start", project.container(service))
        assert env.step("inventory").observation.text
        project.change_password()
        project.compose(*up, **project.shared)
        assert not env.step("look").terminated
    said = docker("exec", project.container("postgres"), "psql", "-h", "/tmp", "-U", "postgres", "-lqtA")
    assert {"household|agentenvs", "webshop|agentenvs"} <= {line.rpartition("|UTF8")[0] for line in said.splitlines()}
    assert docker("exec", project.container("household"), "ls", "/data").splitlines() == []


def test_200_episodes_outlive_a_replica(project, tmp_path):
    """Two replicas behind nginx; whichever plays is killed, twice. Nothing is lost, nothing is played twice."""
    project.compose("--profile", "replicas", "build", "-q", "postgres", "proxy")
    project.compose("--profile", "replicas", "up", "--no-build", "--wait", "household-01", "household-02", "proxy")
    env = RemoteEnv("household", project.proxy, token=TOKEN)
    env.reset()
    env.step("look")
    evaluation = ["eval", "household", "--policy", "expert", "--json", "--episodes", str(EPISODES)]
    evaluation += ["--url", project.proxy, "--out", str(tmp_path / "run")]
    playing = subprocess.Popen(
        [*CLI, *evaluation], env=_surroundings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        _kill_one_that_plays(project, playing)
        assert env.step("inventory").observation.text  # by whichever is left
        _kill_one_that_plays(project, playing)
        assert not env.step("look").terminated
        out, _ = playing.communicate(timeout=600)
    finally:
        playing.kill()
    summary = json.loads(out)["summary"]
    assert (summary["episodes"], summary["successes"], summary["errors"]) == (EPISODES, EPISODES, 0)
    assert env.turn == 3
    env.finish("abandoned")
    (record,) = parse_records(env.record())
    assert replay(record).divergence is None
    env.close()
    command(*CLI, "replay", tmp_path / "run", variables=_surroundings())


def _kill_one_that_plays(project, playing):
    """Kill the replica that has played most since this was called, and start it again once it is gone."""
    before = {route: _turns(project, route) for route in ROUTES}

    def played():
        return {route: _turns(project, route) - before[route] for route in ROUTES}

    until(lambda: max(played().values()) > 50 or playing.poll() is not None, "a replica plays")
    assert playing.poll() is None, "all was played before a replica was killed"
    gains = played()
    name = project.container(f"household-{max(gains, key=gains.get)}")
    docker("kill", name)
    docker("start", name)
    until(lambda: docker("inspect", "-f", "{{.State.Health.Status}}", name) == "healthy", f"{name} is back")


def _surroundings():
    paths = os.pathsep.join(str(ROOT / room) for room in ("", "servers", "scenarios", "scoring"))
    return {**os.environ, "AGENTENVS_TOKEN": TOKEN, "PYTHONPATH": paths}


def _turns(project, route):
    """How many turns a replica has played."""
    code = (
        "import os, urllib.request as u; r = u.Request('http://127.0.0.1:8000/metrics',"
        " headers={'Authorization': 'Bearer ' + os.environ['AGENTENVS_TOKEN']}); print(u.urlopen(r).read().decode())"
    )
    name = project.container(f"household-{route}")
    text = command("docker", "exec", name, "python", "-I", "-c", code, check=False).stdout
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("agentenvs_turns_total"))


def test_worlds_of_one_file_do_not_see_the_machine(project):
    """From inside: no process, no file and no engine of the machine; nobody but itself to be seen."""
    project.compose("up", "--no-build", "--wait", "household")
    name = project.container("household")
    looks = (
        "import os; print(sorted(p for p in os.listdir('/proc') if p.isdigit() and int(p) > 40));"
        " print(os.path.exists('/var/run/docker.sock'), os.listdir('/prepared'), os.getuid())"
    )
    seen = docker("exec", name, "python", "-I", "-c", looks).splitlines()
    assert seen[1] == "False [] 10001"
    assert len(seen[0]) < 40
    assert ready(project.url)
