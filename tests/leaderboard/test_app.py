"""The server over real HTTP: what is sent is verified, shown and escaped; what is too much or too slow is not taken."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.harness.manifest import Manifest
from agentenvs.leaderboard import app as apps
from agentenvs.leaderboard import asking, unpacking
from agentenvs.leaderboard.app import Service, make_app
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.queueing import Queue
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.sending import Target
from agentenvs.leaderboard.store import Store, opened
from tests.leaderboard import desk

TOKENS = {"a" * 20: "Ada", "b" * 20: "Bob"}


@contextmanager
def served(store: Store, *, most: int = 64, workers: int = 1, **more: object) -> Iterator[str]:
    """Serve a store at a free port."""
    service = Service(store, Queue(store, workers, most), **more)  # type: ignore[arg-type]
    config = uvicorn.Config(make_app(service), port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    listening = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    with served(store) as address:
        yield address


def test_a_run_is_sent_shown_and_a_copy_of_it_refused(url: str, small: Board, desks):
    target = Target(f"{url}/boards/{small.id}")
    data = desks["expert"].named(notes="<img src=x onerror=alert(1)> & more").sent()
    row = target.send(small.id, data)
    assert (row["contestant"], row["tier"], row["best"]) == ("Ada", "replayed", 1)
    assert target.send(small.id, data)["id"] == row["id"]
    with pytest.raises(Refused) as caught:
        target.send(small.id, desks["expert"].named(contestant="Mallory").sent())
    assert caught.value.reason == "copied"
    page = httpx.get(f"{url}/boards/{small.id}/entries/{row['id']}")
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.text
    assert "<img" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "LB401" in httpx.get(f"{url}/boards/{small.id}/refused").text
    assert [job["state"] for job in httpx.get(f"{url}/api/queue").json()["queue"]] == ["refused", "admitted"]
    assert httpx.get(f"{url}/api/boards/{small.id}/entries").json()["entries"][0]["id"] == row["id"]
    for path in ("/", "/tiers", "/queue", f"/boards/{small.id}", f"/boards/{small.id}?q=ad"):
        assert httpx.get(f"{url}{path}").status_code == 200
    assert "Nobody of that name" in httpx.get(f"{url}/boards/{small.id}?q=zz").text
    assert "There is only one page" in httpx.get(f"{url}/boards/{small.id}?page=7").text


def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(url: str, small: Board):
    page = httpx.get(f"{url}/boards/none")
    assert (page.status_code, "there is no board" in page.text) == (404, True)
    assert httpx.get(f"{url}/boards/{small.id}/entries/none").status_code == 404
    answer = httpx.get(f"{url}/api/boards/none")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "LB501")
    assert httpx.get(f"{url}/api/boards/{small.id}/submissions/none").status_code == 404
    assert httpx.get(f"{url}/", headers={"host": "evil.example"}).status_code == 400


def test_a_body_that_is_none(url: str, small: Board):
    to = f"{url}/api/boards/{small.id}/submissions"
    assert httpx.post(to, content=b"x").status_code == 422  # no form of a web page can send application/zip
    job = httpx.post(to, content=b"junk", headers={"content-type": "application/zip"})
    assert job.status_code == 202
    with pytest.raises(Refused) as caught:
        Target(url).send(small.id, b"junk")
    assert caught.value.reason == "no-bundle"


def test_too_much_and_too_slow(store: Store, small: Board, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(apps, "LIMITS", replace(unpacking.LIMITS, file_bytes=1_000))
    with served(store, upload_seconds=0.5) as url:
        to, kind = f"{url}/api/boards/{small.id}/submissions", {"content-type": "application/zip"}
        assert httpx.post(to, content=b"x" * 2_000, headers=kind).json()["error"]["code"] == "LB101"

        def parts() -> Iterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        assert httpx.post(to, content=parts(), headers=kind).json()["error"]["code"] == "LB101"
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as line:
            head = f"POST {to.partition(url)[2]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/zip\r\n"
            line.sendall(f"{head}Content-Length: 500\r\n\r\nslow".encode())
            said = line.recv(4_096).decode()
            assert "413" in said.splitlines()[0]
        assert not [path for path in (store.folder / "inbox").iterdir() if path.name.startswith(".")]


def test_tokens_say_who_sends(store: Store, small: Board, desks):
    with served(store, tokens=TOKENS) as url:
        with pytest.raises(Refused) as caught:
            Target(url).send(small.id, desks["expert"].sent())
        assert caught.value.reason == "not-yours"
        with pytest.raises(Refused) as caught:
            Target(url, "b" * 20).send(small.id, desks["expert"].sent())
        assert (caught.value.reason, caught.value.why) == ("not-yours", "the token is that of Bob")
        assert Target(url, "a" * 20).send(small.id, desks["expert"].sent())["best"] == 1


def test_a_server_that_only_shows(store: Store, small: Board, desks):
    with served(store, open=False) as url, pytest.raises(Refused, match="takes nothing"):
        Target(url).send(small.id, desks["expert"].sent())


def test_the_queue_is_bounded(store: Store, small: Board, desks):
    with served(store, most=0) as url, pytest.raises(Refused) as caught:
        Target(url).send(small.id, desks["expert"].sent())
    assert caught.value.reason == "busy"


def test_what_was_being_verified_when_the_server_was_killed_is_begun_again(tmp_path: Path, small: Board, desks):
    data = desks["expert"].sent()
    with opened(tmp_path / "board") as store:
        store.make(small)
        dead = Queue(store, workers=0)
        path, left = store.keep("inbox", data), store.keep("inbox", b"left over")
        dead.add(small.id, path, "")
        with store.writing() as connection:
            connection.exec_driver_sql("UPDATE queue SET state = 'verifying'")
    with opened(tmp_path / "board") as store, served(store) as url:
        assert not left.exists()
        end = time.monotonic() + 120
        while not asking.page(store, small.id)[0] and time.monotonic() < end:
            time.sleep(0.05)
        assert Target(url).send(small.id, data)["best"] == 1
        assert len(asking.page(store, small.id)[0]) == 1


def test_one_file_that_waits_for_two_boards(store: Store, small: Board, desks):
    other = desk.board(title="the same", attempts=3, episodes=desk.EPISODES, options={"limit": 40})
    store.make(other)
    queue = Queue(store, workers=0)
    path = store.keep("inbox", desks["expert"].sent())
    for board in (other, small):
        queue.add(board.id, path, "")
    with served(store) as url:
        assert Target(url).send(small.id, desks["expert"].sent())["best"] == 1
        assert asking.refused(store, other.id)[0]["what"].startswith("record 0 was played with limit=50")
    assert not path.exists()


def test_a_run_finds_its_board(store: Store, small: Board, runs):
    made = Manifest.model_validate_json((runs["expert"] / "manifest.json").read_bytes())
    with served(store) as url:
        assert Target(url).choose(made) == small.id
        assert Target(f"{url}/boards/other?page=2").choose(made) == "other"
        other = desk.board(episodes=3)
        store.make(other)
        assert Target(url).choose(made) == small.id
        three = made.envs[0].model_copy(update={"tasks": 4})
        with pytest.raises(ConfigError, match="there is no board for 4 scenarios"):
            Target(str(store.folder)).choose(made.model_copy(update={"envs": [three]}))
    with pytest.raises(ServiceError, match="cannot be reached"):
        Target(url).boards()
    with pytest.raises(ConfigError, match="there are no boards in"):
        Target("nowhere").boards()
