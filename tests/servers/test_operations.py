"""What an operator sees: readiness, metrics, the log, and the ids of requests; and that no secret is in any of it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentenvs_servers import logs, readiness, telling
from agentenvs_servers.hall import Hall
from agentenvs_servers.metering import Counter, Histogram, gauge, render
from agentenvs_servers.requests import Request, current
from agentenvs_servers.siblings import Siblings
from tests.servers.house import moved
from tests.servers.line import of, opened
from tests.servers.rooms import SECRET
from tests.servers.wire import Play, key, problem

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-many-characters"


async def samples(wire, token=None):
    """Return the metrics of a server: name and labels to value."""
    answer = await wire.get("/metrics", token)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def parsed(text):
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "worker")
            assert (sample.name, labels) not in found or "worker" in sample.labels
            found[sample.name, labels] = found.get((sample.name, labels), 0) + sample.value
    return found


def value(found, name, **labels):
    return found.get((name, frozenset(labels.items())))


# ---- readiness -------------------------------------------------------------------------------------------------------


async def test_a_server_is_ready_until_it_stops(wire):
    assert (await wire.get("/ready")).json() == {"status": "ready"}
    wire.hall.draining = True
    answer = await wire.get("/ready")
    assert problem(answer, "not_ready")["detail"] == "it is stopping"
    assert answer.headers["retry-after"] == "1"
    assert (await wire.get("/health")).status_code == 200


async def test_a_server_whose_journal_was_taken_away_is_not_ready(house):
    wire = house.start()
    assert (await wire.get("/ready")).status_code == 200
    house.path.rename(house.path.with_name("elsewhere"))
    assert problem(await wire.get("/ready"), "not_ready")["detail"] == "its journal was taken away"
    house.path.touch()  # another file of that name is not it
    assert problem(await wire.get("/ready"), "not_ready")["detail"] == "its journal was taken away"


async def test_a_server_whose_journal_has_damaged_pages_is_not_ready(house):
    play = await house.start().play()
    await play.step(1, "look")
    house.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    ((page,),) = house.sql("SELECT rootpage FROM sqlite_master WHERE name = 'turns'")
    with house.path.open("r+b") as file:
        file.seek((page - 1) * 4_096)
        file.write(b"\xff" * 4_096)
    after = moved(play, house.start())
    assert (await after.wire.get("/ready")).status_code == 200
    problem(await after.step(2, "look"), "journal_unavailable")
    assert problem(await after.wire.get("/ready"), "not_ready")["detail"] == "its journal is damaged"


async def test_a_server_whose_journal_cannot_be_written_is_not_ready(house, monkeypatch):
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0.0)
    wire = house.start()
    assert (await wire.get("/ready")).status_code == 200
    assert [row[0] for row in house.sql("SELECT name FROM meta ORDER BY name")] == ["epoch", "probe"]
    house.sql("ALTER TABLE meta RENAME TO away")
    assert problem(await wire.get("/ready"), "not_ready")["detail"] == "its journal cannot be written"
    house.sql("ALTER TABLE away RENAME TO meta")
    assert (await wire.get("/ready")).status_code == 200


async def test_a_journal_that_does_not_answer_is_not_waited_for(house, monkeypatch):
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.1)
    wire = house.start()
    let_go = asyncio.Event()

    async def hangs(*_, **__):
        await let_go.wait()

    monkeypatch.setattr(wire.hall.journal, "do_now", hangs)
    began = time.monotonic()
    for answer in await asyncio.gather(*(wire.get("/ready") for _ in range(20))):
        problem(answer, "not_ready")
    assert time.monotonic() - began < 5
    let_go.set()
    await asyncio.sleep(0)
    assert (await wire.get("/ready")).status_code == 200


async def test_turns_that_are_written_are_proof_enough(house, monkeypatch):
    wire = house.start()
    play = await wire.play()
    await play.step(1, "look")

    async def never(*_):
        raise AssertionError

    monkeypatch.setattr(wire.hall.journal, "do_now", never)
    assert (await wire.get("/ready")).status_code == 200


# ---- metrics ---------------------------------------------------------------------------------------------------------


async def test_requests_steps_episodes_and_problems_are_counted(serve):
    wire = serve("room")
    play = await wire.play()
    await play.step(1, "look")
    await play.agent_step(2, "look")
    await wire.post("/v1/steps", {"items": [of(play, 3, "look"), of(play, 4, "look")]})
    async with opened(wire) as line:
        await line.step(play, 5, "win")
        await line.ask("nonsense")
        assert value(await samples(wire), "agentenvs_sockets") == 1
    await play.step(1, "look")
    await wire.get("/nowhere")
    await wire.http.request("BREW", "/health")
    await play.close()
    await (await wire.play()).close(ending="truncated")
    found = await samples(wire)
    requests = {
        ("POST /v1/sessions", 201): 2,
        ("POST /v1/sessions/{session}/step", 200): 1,
        ("POST /v1/sessions/{session}/step", 409): 1,
        ("POST /v1/agent/step", 200): 1,
        ("POST /v1/steps", 200): 1,
        ("DELETE /v1/sessions/{session}", 200): 2,
        ("WS step", 200): 1,
        ("WS (unknown)", 422): 1,
        ("GET (none)", 404): 1,
        ("GET /metrics", 200): 1,
    }
    for (route, status), count in requests.items():
        assert value(found, "agentenvs_requests_total", route=route, status=str(status)) == count, route
    assert value(found, "agentenvs_requests_total", route="(other) /health", status="405") == 1
    for door, count in {"http": 2, "agent": 1, "batch": 1, "socket": 1}.items():
        assert value(found, "agentenvs_step_seconds_count", door=door) == count
        assert value(found, "agentenvs_step_seconds_bucket", door=door, le="+Inf") == count
    room = "tests/Room-v0"
    assert value(found, "agentenvs_turns_total", env=room) == 5
    assert value(found, "agentenvs_episodes_total", env=room, ending="terminated") == 1
    assert value(found, "agentenvs_episodes_total", env=room, ending="truncated") == 1
    assert value(found, "agentenvs_sessions_made_total", env=room, tenant="") == 2
    assert value(found, "agentenvs_sessions_over_total", env=room, how="closed") == 2
    assert value(found, "agentenvs_problems_total", code="turn_past") == 1
    assert value(found, "agentenvs_problems_total", code="invalid_request") == 1
    assert value(found, "agentenvs_sockets") == 0
    assert value(found, "process_resident_memory_bytes") > 1e6


async def test_sessions_are_told_by_tenant_and_worlds_by_what_became_of_them(house, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"lab: {TOKEN}")
    wire = house.start("room", max_live=1, token_file=str(tokens))
    plays = []
    for _ in range(3):
        made = await wire.post("/v1/sessions", {"env": "room", "key": key()}, TOKEN)
        plays.append(Play(wire, made.json()))
        wire.clock.now += 1
    await wire.hall.sweep(now=True)
    assert (await plays[0].agent_step(1, "look")).status_code == 200
    found = await samples(wire, TOKEN)
    room = "tests/Room-v0"
    assert value(found, "agentenvs_journal_sessions", env=room, tenant="lab") == 3
    assert value(found, "agentenvs_sessions", env=room, tenant="lab") == 2
    assert value(found, "agentenvs_worlds_put_aside_total") == 2
    assert value(found, "agentenvs_world_rebuild_seconds_count") == 1
    assert value(found, "agentenvs_journal_turns_total") == 1
    assert value(found, "agentenvs_journal_group_count") >= 5
    assert value(found, "agentenvs_journal_commit_seconds_count") == value(found, "agentenvs_journal_group_count")
    house.sql("UPDATE turns SET digest = X'00'")
    await wire.hall.close()


async def test_a_journal_that_is_away_is_counted_and_does_not_keep_metrics_waiting(house, monkeypatch):
    monkeypatch.setattr(telling, "JOURNAL_SECONDS", 0.0)
    wire = house.start()
    play = await wire.play()
    house.sql("ALTER TABLE turns RENAME TO away")
    house.sql("ALTER TABLE sessions RENAME TO away_too")
    problem(await play.step(1, "look"), "journal_unavailable")
    found = await samples(wire)
    assert value(found, "agentenvs_journal_failures_total") >= 1
    assert not [name for name, _ in found if name == "agentenvs_journal_sessions"]


async def test_a_lost_world_is_counted_by_why(house):
    play = await house.start().play()
    await play.step(1, "look")
    house.sql("UPDATE turns SET digest = X'00'")
    wire = house.start()
    problem(await Play(wire, play.form).step(2, "look"), "diverged")
    assert value(await samples(wire), "agentenvs_worlds_lost_total", code="diverged") == 1


async def test_no_secret_and_no_episode_stands_in_metrics(serve):
    wire = serve("room", tokens=(TOKEN,))
    play = Play(wire, (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, TOKEN)).json())
    await play.agent_step(1, "raise")
    await wire.get(play.path, TOKEN)
    await wire.get(f"{play.path}/nowhere", TOKEN)
    await wire.get(f"/{TOKEN}")
    text = (await wire.get("/metrics", TOKEN)).text
    for secret in (TOKEN, SECRET, play.form["session"], play.agent_key, play.episode, "mine"):
        assert secret not in text


async def test_workers_tell_of_each_other(serve, tmp_path):
    wires = [serve("room") for _ in range(3)]
    for number, wire in enumerate(wires):
        wire.hall.siblings = Siblings(number, str(tmp_path))
        for _ in range(number + 1):
            await wire.play()
    for wire in wires[1:]:
        wire.hall.siblings.publish(telling.families(wire.hall))
    (tmp_path / "9.json").write_text("{")
    text = (await wires[0].get("/metrics")).text
    shown = re.findall(r'agentenvs_sessions\{env="tests/Room-v0",tenant="",worker="(\d)"\} (\d)', text)
    assert shown == [("0", "1"), ("1", "2"), ("2", "3")]
    assert value(parsed(text), "agentenvs_sessions", env="tests/Room-v0", tenant="") == 6


async def test_metrics_that_cannot_be_shared_are_told_once(serve, tmp_path, caplog):
    hall = serve("room").hall
    hall.siblings = Siblings(0, str(tmp_path / "gone"))
    for _ in range(3):
        hall.siblings.publish(telling.families(hall))
    assert caplog.text.count("cannot be shared") == 1


def test_text_is_as_prometheus_reads_it():
    odd = 'a "quoted" \\ back\nslash'
    counter = Counter("odd_total", "Odd.", "label")
    counter.add(odd)
    counter.add(odd, by=1.5)
    histogram = Histogram((1.0, 2.0))
    for size in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(size)
    assert list(histogram.samples({})) == [
        ("_bucket", {"le": "1"}, 2), ("_bucket", {"le": "2"}, 3), ("_bucket", {"le": "+Inf"}, 4),
        ("_sum", {}, 12.0), ("_count", {}, 4),
    ]  # fmt: skip
    text = render({"0": [counter.family()]}, [gauge("plain", "Plain.", 1e20)]).decode()
    assert value(parsed(text), "odd_total", label=odd) == 2.5
    assert text.endswith("# HELP plain Plain.\n# TYPE plain gauge\nplain 100000000000000000000\n")


# ---- ids and logs ----------------------------------------------------------------------------------------------------


async def test_a_request_has_an_id(serve):
    wire = serve()
    play = await wire.play()
    made = {(await wire.get("/health")).headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    body = {"episode": play.episode, "turn": 1, "action": "look"}
    plain = await wire.post(f"{play.path}/step", body)
    given = await wire.http.post(f"{play.path}/step", json=body, headers={"x-request-id": "mine:7/a=b"})
    assert "x-request-id" not in plain.headers
    assert given.headers["x-request-id"] == "mine:7/a=b"
    assert plain.content == given.content
    refused = await play.step(3, "look")
    assert refused.headers["x-request-id"]
    assert refused.headers["x-request-id"] not in refused.text


@pytest.mark.parametrize("id_", ["", "x" * 129, "a b", "a\tb", "ä", '"', "<x>"])
async def test_an_id_that_is_not_sane_is_not_taken(wire, id_):
    answer = await wire.http.get("/health", headers={"x-request-id": id_.encode("latin-1")})
    assert answer.headers["x-request-id"] not in ("", id_)


@pytest.fixture
def log(capsys):
    """Return a function that sets the log up and returns one that tells what was written."""
    kept = {name: (list(logger.handlers), logger.level, logger.propagate) for name, logger in _loggers()}

    def begin(form, requests):
        logs.set_up(form, requests=requests)
        return lambda: capsys.readouterr().err

    yield begin
    for name, logger in _loggers():
        logger.handlers[:], level, logger.propagate = kept[name]
        logger.setLevel(level)


def _loggers():
    return [(name, logging.getLogger(name)) for name in ("agentenvs", "agentenvs.access", "uvicorn")]


async def test_each_request_has_a_line_of_json(serve, log):
    written = log("json", True)
    wire = serve("room", tokens=(TOKEN,))
    made = await wire.http.post(
        "/v1/sessions",
        json={"env": "room", "key": "mine"},
        headers={"x-request-id": "abc", "authorization": f"Bearer {TOKEN}"},
    )
    play = Play(wire, made.json())
    await play.agent_step(1, "raise")
    await wire.get(play.path)
    async with opened(wire, (b"authorization", b"Bearer " + TOKEN.encode())) as line:
        await line.ask("status", session=play.form["session"])
    text = written()
    lines = [json.loads(line) for line in text.splitlines()]
    asked = [line for line in lines if line["logger"] == "agentenvs.access"]
    assert [(line["route"], line["status"]) for line in asked] == [
        ("POST /v1/sessions", 201),
        ("POST /v1/agent/step", 500),
        ("GET /v1/sessions/{session}", 401),
        ("WS status", 200),
    ]
    assert asked[0]["request"] == "abc"
    tenant = wire.hall.keyring.find(TOKEN).name
    assert [line.get("tenant") for line in asked] == [tenant, None, None, tenant]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    (failed,) = [line for line in lines if line["logger"] == "agentenvs.server" and line["level"] == "ERROR"]
    assert failed["request"] == asked[1]["request"]
    for secret in (TOKEN, SECRET, play.form["session"], play.agent_key, "mine"):
        assert secret not in text


async def test_lines_of_text_say_the_same(serve, log):
    written = log("text", True)
    wire = serve("room")
    await wire.http.get("/health", headers={"x-request-id": "abc"})
    assert re.fullmatch(
        r"\S+Z INFO agentenvs\.access: answered \[process=\d+ request=abc route=GET /health status=200 ms=[\d.]+\]\n",
        written(),
    )


async def test_no_request_has_a_line_unless_asked_for(serve, log):
    written = log("text", False)
    await serve("room").get("/health")
    assert written() == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_failure_is_told_by_kind_and_place_on_one_line(log, form):
    written = log(form, False)
    current.set(Request(b"abc"))
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("it\nfailed")
    current.set(None)
    text = written()
    assert text.count("\n") == 1
    assert "it failed" in text
    assert "ValueError at test_operations.py" in text
    assert "abc" in text
    assert SECRET not in text


async def test_the_background_work_looks_after_tokens_and_siblings(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("agentenvs_servers.hall.SWEEP_SECONDS", 0.01)
    file = tmp_path / "tokens"
    file.write_text(TOKEN)
    hall: Hall = serve("room", token_file=str(file)).hall
    hall.siblings = Siblings(3, str(tmp_path))
    task = asyncio.create_task(hall.run())
    other = "another-token-of-as-many"
    file.write_text(f"{other}\n")
    for _ in range(500):
        await asyncio.sleep(0.01)
        if hall.keyring.find(other) and (tmp_path / "3.json").exists():
            break
    task.cancel()
    assert hall.keyring.find(TOKEN) is None
    assert (tmp_path / "3.json").stat().st_size
