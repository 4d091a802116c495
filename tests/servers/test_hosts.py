"""A page of the web cannot drive a server of this machine that asks for no token."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from agentenvs_servers.hosts import Hosts
from agentenvs_servers.problems import ProblemError
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.wire import problem

OURS = [
    "localhost",
    "localhost:8000",
    "LocalHost",
    "localhost.:1",
    "127.0.0.1:8000",
    "127.8.9.1",
    "[::1]:8000",
    "[::1]",
]
FOREIGN = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "",
    "a b",
    "[::1",
    "@",
]


def _judged(hosts: Hosts, **headers: str) -> str | None:
    try:
        hosts.must_be_ours({name.encode(): value.encode() for name, value in headers.items()})
    except ProblemError as refused:
        return refused.code
    return None


@pytest.mark.parametrize("host", OURS)
def test_this_machine_is_called_by_its_names_and_addresses(host):
    hosts = Hosts()
    assert not hosts.knows(host.encode())
    for _ in range(2):
        assert _judged(hosts, host=host) is None
    assert hosts.knows(host.encode())
    assert _judged(hosts, host="localhost", origin=f"http://{host}") is None


@pytest.mark.parametrize("host", FOREIGN)
def test_any_other_name_is_refused(host):
    hosts = Hosts("lab,box.local")
    for _ in range(2):
        assert _judged(hosts, host=host) == "host_foreign"
    assert _judged(hosts, host="localhost", origin=f"http://{host}") == "origin_foreign"
    assert _judged(hosts, host="localhost", origin="null") == "origin_foreign"


def test_names_can_be_added():
    hosts = Hosts("Lab, box.local")
    assert [_judged(hosts, host=host) for host in ("lab:80", "BOX.local", "localhost")] == [None] * 3
    assert _judged(Hosts("*"), host="any.example", origin="https://other.example") is None
    assert _judged(Hosts()) is None  # HTTP/1.0, which no browser speaks


@pytest.fixture(scope="module")
def url():
    rooms.register()
    with background(["room"]) as found:
        yield found


@pytest.mark.parametrize("path", ["/health", "/v1/envs", "/v1/sessions/x", "/metrics", "/docs", "/nowhere"])
def test_every_route_asks_by_which_name_it_is_called(url, path):
    problem(httpx.get(url + path, headers={"host": "evil.example"}), "host_foreign")
    problem(httpx.get(url + path, headers={"origin": "https://evil.example"}), "origin_foreign")


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/steps", "/v1/agent/step", "/v1/sessions/x/step"])
def test_a_foreign_page_makes_and_plays_nothing(url, path):
    answer = httpx.post(url + path, json={"env": "room", "key": "k"}, headers={"host": "evil.example:8000"})
    problem(answer, "host_foreign")


def test_a_foreign_page_opens_no_socket(url):
    address = url.replace("http", "ws") + "/v1/ws"
    with pytest.raises(InvalidStatus) as caught:
        connect(address.replace("127.0.0.1", "localhost"), additional_headers={"Origin": "http://evil.example"})
    assert caught.value.response.status_code == 403
    assert b"origin_foreign" in caught.value.response.body


def test_a_token_or_a_name_opens_the_server_again():
    rooms.register()
    token = "t" * 32
    foreign = {"host": "box.local", "authorization": f"Bearer {token}"}
    with background(["room"], Settings(tokens=(token,))) as found:
        assert httpx.get(f"{found}/v1/envs", headers=foreign).status_code == 200
    with background(["room"], Settings(hosts="box.local")) as found:
        assert httpx.get(f"{found}/v1/envs", headers={"host": "box.local"}).status_code == 200
