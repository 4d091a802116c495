"""``up``, ``down``, ``ps``, ``logs`` on a real engine. The world is named by its whole id, so that no container of
whoever runs these tests has the same name."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentenvs import deploy
from agentenvs.client import RemoteEnv
from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.deploy.plans import WORLD_LABEL
from tests.cli.conftest import cli  # noqa: F401 - a fixture
from tests.deploy.engines import BASE, TOKEN, command, docker, ready, until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker"), pytest.mark.timeout(600)]

WORLD = "agentenvs/Household-v0"
NAME = "agentenvs-agentenvs-household-v0"


@pytest.fixture
def gone(engine):
    """Nothing of the tests' own world is up before or after."""

    def away():
        docker("rm", "-f", NAME, check=False)
        docker("volume", "rm", "-f", NAME)

    away()
    yield
    away()


def plan(image, **more):
    return deploy.Plan(WORLD, image, token=TOKEN, **more)


def test_from_up_to_down(cli, engine, image, gone, monkeypatch):  # noqa: F811
    """As somebody types it: up, up again, ps, logs, an evaluation, down; a session goes on after all of it."""
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    told = cli("up", WORLD, "--image", image, "-o", "limit=40")
    assert told.code == 0
    world, url, token = told.out.strip().split("\t")
    assert (world, token, ready(url)) == (WORLD, TOKEN, True)
    assert "starting" in told.err
    assert "ready after" in told.err
    assert f"--url {url}" in told.err

    (again,) = cli("up", WORLD, "--image", image, "--json").json
    assert (again["url"], again["token"]) == (url, TOKEN)
    docker("pause", NAME)
    monkeypatch.setenv("AGENTENVS_TOKEN", "t" * 20)
    said = cli("up", WORLD, "--image", image, "--memory", "2g").err
    assert "was up already and stays as it is, with another memory, options, token than asked for" in said
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    shown = [one for one in cli("ps", "--json").json if one["world"] == WORLD]
    assert [(one["url"], one["image"]) for one in shown] == [(url, image)]
    assert "token" not in shown[0]
    assert url in cli("ps").out
    assert TOKEN in cli("ps", "--tokens").out
    assert "serving agentenvs/Household-v0" in cli("logs", WORLD).out
    done = cli("eval", WORLD, "--policy", "expert", "--episodes", "5", "--url", url, "--json")
    assert done.json["summary"]["successes"] == 5

    env = RemoteEnv(WORLD, url, token=TOKEN)
    env.reset()
    env.step("look")
    port = url.rpartition(":")[2]
    assert cli("down", WORLD).out == f"{WORLD}\n"
    assert cli("down", WORLD).code == 2
    assert cli("up", WORLD, "--image", image, "--port", port).code == 0
    assert env.step("inventory").observation.text
    env.close()
    assert cli("down", WORLD).code == 0
    assert cli("down", WORLD, "--volumes").out == f"{WORLD}\n"
    assert NAME not in docker("volume", "ls", "-q").split()


def test_a_container_killed_in_the_middle_of_an_episode_goes_on(engine, image, gone):
    """Killed like by a lack of memory, started again by the engine itself: the next turn is answered."""
    up = deploy.up(engine, plan(image))
    with RemoteEnv(WORLD, up.url, token=TOKEN) as env:
        env.reset()
        env.step("look")
        pid = docker("inspect", "-f", "{{.State.Pid}}", NAME)
        inner = docker("top", NAME, "-eo", "pid,comm").splitlines()[1:]
        server = next(line.split()[0] for line in inner if line.split()[0] != pid)
        began = docker("inspect", "-f", "{{.State.StartedAt}}", NAME)
        os.kill(int(server), signal.SIGKILL)
        assert env.step("inventory").observation.text
        until(lambda: docker("inspect", "-f", "{{.State.StartedAt}}", NAME) != began, "started again")
        assert env.turn == 2


def test_it_is_shut_off(engine, image, gone):
    deploy.up(engine, plan(image, memory="300m", cpus=0.5, processes=100))
    form = json.loads(docker("inspect", NAME))[0]["HostConfig"]
    assert (form["Memory"], form["MemorySwap"], form["NanoCpus"], form["PidsLimit"]) == (
        300 << 20,
        300 << 20,
        5 * 10**8,
        100,
    )
    assert (form["ReadonlyRootfs"], form["CapDrop"], form["Privileged"]) == (True, ["ALL"], False)
    assert "no-new-privileges:true" in form["SecurityOpt"]
    assert form["PortBindings"]["8000/tcp"][0]["HostIp"] == "127.0.0.1"


def test_a_prepared_folder_is_seen_and_not_written(engine, image, gone, tmp_path):
    (tmp_path / "made").write_text("once\n")
    tmp_path.chmod(0o755)
    deploy.up(engine, plan(image, prepared=tmp_path))
    said = docker("exec", NAME, "sh", "-c", "cat $AGENTENVS_PREPARED/made; touch $AGENTENVS_PREPARED/x || echo no")
    assert said.splitlines()[0::2] == ["once"] or said == "once\nno"


REACH = """
import socket
for host, port in {targets}:
    try:
        socket.create_connection((host, port), timeout=3).close()
        print("reached")
    except OSError:
        print("shut")
"""


def test_from_inside_nothing_can_be_reached(engine, image, gone, root):
    """On a network as docs/containers.md makes one: it is asked from outside, and asks nobody."""
    tool = root.parent / "shared" / "tools" / "docker-engine.sh"
    if os.geteuid() != 0 or not tool.is_file():
        pytest.skip(f"NO DOCKER NETWORK behind a firewall: {tool} isolate makes one, as root")
    command("bash", tool, "isolate")
    up = deploy.up(engine, plan(image, network="envnet"))
    gateway = docker("network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "envnet")
    with socket.socket() as listening:
        listening.bind(("0.0.0.0", 0))
        listening.listen()
        targets = [(gateway, listening.getsockname()[1]), ("192.0.2.1", 80), ("127.0.0.1", 8000)]
        said = docker("exec", NAME, "python", "-I", "-c", REACH.format(targets=targets))
    assert said.split() == ["shut", "shut", "reached"]
    with RemoteEnv(WORLD, up.url, token=TOKEN) as env:
        assert env.reset().text


def test_a_network_that_is_not_there_is_told(engine, image, gone):
    with pytest.raises(ConfigError, match="docker network ls"):
        deploy.up(engine, plan(image, network="agentenvs-nowhere"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"memory": "100000g"}, "the engine's machine has"),
        ({"memory": "24m"}, "needs more than its 24m of memory"),
        ({"memory": "lots"}, "'lots' is no amount of memory"),
        ({"options": ("nonsense=1",)}, "ended at once with exit code 2"),
    ],
    ids=["more than there is", "too little", "none", "an option it does not have"],
)
def test_what_cannot_be_started_is_told_and_leaves_nothing(engine, image, gone, more, said):
    with pytest.raises(ConfigError) as caught:
        deploy.up(engine, plan(image, **more))
    assert said in str(caught.value)
    assert NAME not in docker("ps", "-a", "--format", "{{.Names}}").split()
    assert NAME not in docker("volume", "ls", "-q").split()


def test_a_port_that_is_taken_is_told(engine, image, gone):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(ConfigError, match="name another --port") as caught:
            deploy.up(engine, plan(image, port=held.getsockname()[1]))
    assert "does not start" in caught.value.what


def test_an_image_that_is_not_there_is_told(engine, gone):
    with pytest.raises(ConfigError, match="the engine has no image agentenvs-nowhere:1"):
        deploy.up(engine, plan("agentenvs-nowhere:1"))
    with pytest.raises(ConfigError, match="the engine has no image Not A Name"):
        deploy.up(engine, plan("Not A Name"))


def test_a_world_that_takes_too_long_is_told(engine, image, gone):
    with pytest.raises(ServiceError, match="is not ready after 0 s"):
        deploy.up(engine, plan(image), seconds=0)


def test_strangers_are_left_alone(engine, image, gone):
    """A container of that name that somebody else has made is neither taken nor stopped."""
    docker("run", "-d", "--name", NAME, BASE, "sleep", "600")
    try:
        with pytest.raises(ConfigError, match="taken by something"):
            deploy.up(engine, plan(image))
        with pytest.raises(ConfigError, match="is not up"):
            deploy.down(engine, [WORLD])
        assert NAME not in [one.name for one in deploy.ps(engine)]
        assert docker("inspect", "-f", "{{.State.Running}}", NAME) == "true"
    finally:
        docker("rm", "-f", NAME)
    docker("volume", "create", NAME)
    with pytest.raises(ConfigError, match="taken by something"):
        deploy.up(engine, plan(image))
    assert docker("volume", "inspect", "-f", f'{{{{index .Labels "{WORLD_LABEL}"}}}}', NAME) == ""


def test_two_worlds_at_once_are_on_ports_of_their_own(engine, image, gone):
    first = deploy.up(engine, plan(image))
    second = deploy.up(engine, deploy.Plan("agentenvs/Household", image, token=TOKEN))
    try:
        assert first.url != second.url
        assert ready(second.url)
    finally:
        deploy.down(engine, ["agentenvs/Household"], forget=True)
    assert ready(first.url)


def test_who_starts_it_at_the_same_time_gets_the_same(engine, image, gone):
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda _: deploy.up(engine, plan(image)).url, range(4)))
    assert len(set(started)) == 1
    with ThreadPoolExecutor(2) as pool:
        assert [WORLD] in list(pool.map(lambda _: deploy.down(engine, forget=True), range(2)))
    assert NAME not in docker("volume", "ls", "-q").split()


def test_a_prepared_world_is_there_within_seconds(engine, image, gone, record_property):
    """How long it takes is written down, not judged: the machine may be busy."""
    began = time.monotonic()
    deploy.up(engine, plan(image))
    record_property("seconds", round(time.monotonic() - began, 2))
