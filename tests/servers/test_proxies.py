"""The proxy configurations that are shipped: nginx in front of real servers, Envoy against its schema."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
import yaml
from websockets.sync.client import connect

from agentenvs.client import RemoteEnv
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay
from agentenvs.core.task import TaskRef
from tests.postgres import running
from tests.servers.test_stopping import Served
from tests.servers.wire import key, problem

PROXY = Path(__file__).resolve().parents[2] / "servers" / "proxy"
PATIENCE = 60


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def test_what_is_to_be_changed_stands_in_both_files():
    for name in ("nginx.conf", "envoy.yaml"):
        text = (PROXY / name).read_text()
        for what in ("10.0.0.1", "10.0.0.2", "8000", "/metrics", "route", "900s", "[0-9a-f]{8}"):
            assert what in text, (name, what)


def test_envoy_takes_its_configuration():
    """Envoy's own schema takes every field; the ranges it checks besides when it starts are not looked at."""
    pytest.importorskip("envoy.config.bootstrap.v3.bootstrap_pb2", reason="xds-protos is not installed")
    import envoy.extensions.access_loggers.stream.v3.stream_pb2
    import envoy.extensions.filters.http.router.v3.router_pb2
    import envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2  # noqa: F401
    from envoy.config.bootstrap.v3.bootstrap_pb2 import Bootstrap
    from google.protobuf.json_format import ParseDict, ParseError

    form = yaml.safe_load((PROXY / "envoy.yaml").read_text())
    made = ParseDict(form, Bootstrap())
    clusters = {cluster.name for cluster in made.static_resources.clusters}
    assert clusters == {"agentenvs_01", "agentenvs_02", "agentenvs_gone", "agentenvs_any"}
    named = set(re.findall(r"cluster: (\w+)", (PROXY / "envoy.yaml").read_text()))
    assert named == clusters
    form["static_resources"]["clusters"][0]["connect_time_out"] = "2s"
    with pytest.raises(ParseError):
        ParseDict(form, Bootstrap())


SENT = {
    "path of a session": ("/v1/sessions/01aaaaaa.s.x/step", {}, "01"),
    "path of an agent": ("/v1/agent/02aaaaaa.a.x/mcp", {}, "02"),
    "page of a session": ("/play/sessions/01aaaaaa.s.x?upto=40", {}, "01"),
    "key of an agent": ("/v1/agent/step", {"authorization": "Bearer 02aaaaaa.a.x"}, "02"),
    "batch": ("/v1/steps", {"x-agentenvs-route": "01aaaaaa"}, "01"),
}


def test_envoys_routes_find_the_server_of_a_session():
    """As Envoy reads them: the first route whose every match holds."""
    form = yaml.safe_load((PROXY / "envoy.yaml").read_text())
    manager = form["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    (host,) = manager["route_config"]["virtual_hosts"]

    def holds(match, path, headers):
        way = {
            "path": lambda want: path == want,
            "prefix": path.startswith,
            "safe_regex": lambda want: re.fullmatch(want["regex"], path) is not None,
        }
        if not all(way[name](want) for name, want in match.items() if name != "headers"):
            return False
        for header in match.get("headers", ()):
            value, want = headers.get(header["name"], ""), header["string_match"]
            if "prefix" in want and not value.startswith(want["prefix"]):
                return False
            if "safe_regex" in want and not re.fullmatch(want["safe_regex"]["regex"], value):
                return False
        return True

    def cluster(path, headers):
        return next(route for route in host["routes"] if holds(route["match"], path, headers))["route"]["cluster"]

    for path, headers, route in SENT.values():
        assert cluster(path, headers) == f"agentenvs_{route}"
        gone = {name: value.replace(f"{route}aaaaaa", "03aaaaaa") for name, value in headers.items()}
        wanted = "agentenvs_any" if path == "/v1/steps" else "agentenvs_gone"
        assert cluster(path.replace(f"{route}aaaaaa", "03aaaaaa"), gone) == wanted
    for path in ("/v1/sessions", "/v1/steps", "/v1/ws", "/v1/envs", "/ready", "/v1/agent"):
        assert cluster(path, {"authorization": "Bearer a-token-of-many-characters"}) == "agentenvs_any"


# ---- nginx -----------------------------------------------------------------------------------------------------------


class Nginx:
    """nginx with the shipped configuration, other addresses in it."""

    def __init__(self, folder, ports):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            pytest.skip("nginx is not installed")
        (port,) = free_ports(1)
        text = (PROXY / "nginx.conf").read_text()
        for place, upstream in zip(("10.0.0.1:8000", "10.0.0.2:8000"), ports, strict=True):
            text = text.replace(f"server {place}", f"server 127.0.0.1:{upstream}")
        text = text.replace("listen 8080", f"listen 127.0.0.1:{port}").replace("/var/log/nginx", str(folder))
        (folder / "agentenvs.conf").write_text(text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        user = "user root;" if os.geteuid() == 0 else ""  # the folders of a test are its own user's alone
        (folder / "nginx.conf").write_text(
            f"{user} pid {folder}/pid; daemon off; worker_processes 2; error_log {folder}/main.log;\n"
            f"events {{}}\nhttp {{ {temporary} include {folder}/agentenvs.conf; }}\n"
        )
        self.url = f"http://127.0.0.1:{port}"
        self.logs = [folder / name for name in ("agentenvs.log", "agentenvs-error.log", "main.log")]
        self.process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])

    def asked(self):
        """Return route and upstream of each request, in order."""
        return re.findall(r"route=(\S+) upstream=(.*) request=", self.logs[0].read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def cluster():
    with running() as made:
        yield made


@pytest.fixture
def house(cluster, tmp_path):
    """Two servers on one PostgreSQL journal behind nginx: server of a route, and nginx."""
    journal = cluster.create(f"proxies{time.monotonic_ns()}")
    servers = {}
    nginx = None
    try:
        for route in ("01", "02"):
            (tmp_path / route).mkdir()
            servers[route] = Served(tmp_path / route, "--route", route, "--journal", journal, "--drain-seconds", "0")
        (tmp_path / "nginx").mkdir()
        nginx = Nginx(tmp_path / "nginx", [server.url.rpartition(":")[2] for server in servers.values()])
        servers["01"].eventually(lambda: _answers(nginx.url))
        yield servers, nginx
    finally:
        if nginx is not None:
            nginx.stop()
        for server in servers.values():
            server.http.close()
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait()


def _answers(url):
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


class Behind:
    """Sessions behind a proxy."""

    def __init__(self, url):
        self.http = httpx.Client(base_url=url, timeout=PATIENCE)

    def make(self):
        body = {"env": "household", "key": key(), "task": {"split": "train", "seed": 1}}
        return self.http.post("/v1/sessions", json=body).raise_for_status().json()

    def step(self, form, turn):
        body = {"episode": form["episode"], "turn": turn, "action": "look"}
        return self.http.post(f"/v1/sessions/{form['session']}/step", json=body)


def test_sessions_stay_with_their_server_and_outlive_it(house):
    servers, nginx = house
    behind = Behind(nginx.url)
    forms = [behind.make() for _ in range(12)]
    places = {route: server.url.removeprefix("http://") for route, server in servers.items()}
    routes = [form["session"][:2] for form in forms]
    assert set(routes) == set(places)
    for turn in (1, 2, 3):
        for form in forms:
            assert behind.step(form, turn).status_code == 200
    for form in forms:
        agent = {"authorization": f"Bearer {form['agent_key']}"}
        assert behind.http.get("/v1/agent", headers=agent).json()["turn"] == 3
        assert behind.http.get(f"/v1/sessions/{form['session']}").json()["turn"] == 3
        item = {"session": form["session"], "episode": form["episode"], "turn": 4, "action": "look"}
        header = {"x-agentenvs-route": form["session"][:8]}
        (reply,) = behind.http.post("/v1/steps", json={"items": [item]}, headers=header).json()["items"]
        assert reply["status"] == 200
    named = [(token[:2], upstream) for token, upstream in nginx.asked() if len(token) == 8]
    assert len(named) == len(forms) * 6
    assert {upstream for route, upstream in named if route == "01"} == {places["01"]}
    assert {upstream for route, upstream in named if route == "02"} == {places["02"]}

    servers["01"].process.kill()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda form: behind.step(form, 5), forms))
    assert [answer.status_code for answer in answers] == [200] * len(forms)
    assert {answer.json()["turn"] for answer in answers} == {5}
    assert {upstream.split(", ")[-1] for _, upstream in nginx.asked()[-len(forms) :]} == {places["02"]}
    for form in forms:
        behind.http.delete(f"/v1/sessions/{form['session']}").raise_for_status()
        (record,) = parse_records(behind.http.get(f"/v1/sessions/{form['session']}/record").content)
        assert len(record.turns) == 5
        assert replay(record).divergence is None
    said = "".join(log.read_text() for log in nginx.logs if log.exists())
    for form in forms:
        assert form["session"] not in said
        assert form["agent_key"] not in said
    behind.http.close()


def test_clients_play_through_it_and_go_on_when_a_server_is_gone(house):
    servers, nginx = house
    with ExitStack() as held:
        envs = [held.enter_context(closing(RemoteEnv("household", nginx.url))) for _ in range(8)]
        for number, env in enumerate(envs):
            env.reset(TaskRef("train", number))
        for _ in range(3):
            for env in envs:
                env.step("look")
        servers["02"].process.kill()
        with concurrent.futures.ThreadPoolExecutor(len(envs)) as pool:
            results = list(pool.map(lambda env: env.step("inventory"), envs))
        assert [result.observation.budgets["steps"] for result in results] == [46] * len(envs)


def test_a_socket_says_whose_it_is(house):
    servers, nginx = house
    place = f"{nginx.url.replace('http', 'ws')}/v1/ws"
    for route in servers:
        with connect(place, additional_headers={"x-agentenvs-route": f"{route}abcdef"}) as line:
            assert line.response.headers["x-agentenvs-route"][:2] == route
            line.send(json.dumps({"id": 1, "op": "envs"}))
            assert json.loads(line.recv())["status"] == 200


def test_what_the_server_says_reaches_its_client(house):
    _, nginx = house
    with httpx.Client(base_url=nginx.url, timeout=PATIENCE) as http:
        assert http.get("/metrics").status_code == 404
        refused = http.post("/v1/sessions", content=b" " * 3_000_000, headers={"content-type": "application/json"})
        problem(refused, "body_too_large")
        problem(http.get(f"/v1/sessions/{'x' * 20_000}"), "session_unknown")
        given = http.get("/health", headers={"x-request-id": "mine"})
        assert given.headers["x-request-id"] == "mine"
        made = http.get("/v1/envs/none")
        assert re.fullmatch("[0-9a-f]{32}", made.headers["x-request-id"])
