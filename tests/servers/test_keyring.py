"""Tokens have names, quotas and scopes, change while the server runs, and stand nowhere."""

from __future__ import annotations

import hashlib
import os

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers.keyring import Keyring, Tenant
from tests.servers.line import of, opened
from tests.servers.wire import Play, key, problem

ONE, TWO, THREE = (f"{name}-token-of-many-characters" for name in ("one", "two", "three"))


@pytest.fixture
def file(tmp_path):
    class File:
        path = tmp_path / "tokens"
        moment = 1_000_000_000

        def __call__(self, text, name="tokens"):
            self.path = tmp_path / name
            self.path.write_text(text)
            self.moment += 1
            os.utime(self.path, (self.moment, self.moment))
            return str(self.path)

    return File()


def test_lines_name_tokens_and_quotas(file):
    keyring = Keyring(file=file(f"# ours\n\n{ONE}\nlab: {TWO}\n  team-2:   {THREE}  40  \n"))
    assert keyring.find(ONE) == Tenant(hashlib.sha256(ONE.encode()).hexdigest()[:12])
    assert keyring.find(TWO) == Tenant("lab")
    assert keyring.find(THREE) == Tenant("team-2", 40)
    assert keyring.find("lab") is None
    assert keyring.asks


def test_toml_says_more(file):
    digest = hashlib.sha256(TWO.encode()).hexdigest()
    text = (
        f'[[token]]\nname = "lab"\ntoken = "{ONE}"\nmax_sessions = 3\ncreates_per_second = 0.5\n'
        f'[[token]]\nname = "lab"\nsha256 = "{digest}"\nmax_sessions = 3\ncreates_per_second = 0.5\n'
        f'[[token]]\nname = "lab"\ntoken = "{THREE}"\nscope = "metrics"\n'
    )
    keyring = Keyring(file=file(text, "tokens.toml"))
    assert keyring.find(ONE) == keyring.find(TWO) == Tenant("lab", 3, 0.5)
    assert keyring.find(THREE) == Tenant("lab", scope="metrics")
    assert keyring.find(digest) is None
    assert keyring.has_metrics_token


WRONG = {
    "nothing": ("", "holds no token"),
    "only a remark": ("# none", "holds no token"),
    "short": ("lab: short", "line 1.*too weak"),
    "two on a line": (f"{ONE} {TWO}", "line 1.*too weak"),
    "twice": (f"{ONE}\n{ONE}", "line 2.*twice"),
    "quotas apart": (f"lab: {ONE} 3\nlab: {TWO} 4", "line 2.*different quotas"),
    "no quota": (f"lab: {ONE} 0", "line 1.*max_sessions"),
    "long name": (f"{'x' * 65}: {ONE}", "line 1.*name"),
}
WRONG_TOML = {
    "no TOML": ("x", "is no TOML"),
    "no table": ("token = 3", "holds tables"),
    "another table": (f'[[token]]\ntoken = "{ONE}"\n[[tokens]]\ntoken = "{TWO}"', "holds tables"),
    "unknown field": (f'[[token]]\ntoken = "{ONE}"\nquota = 3', "no field 'quota'"),
    "neither": ('[[token]]\nname = "lab"', "either token or sha256"),
    "both": (f'[[token]]\ntoken = "{ONE}"\nsha256 = "{"0" * 64}"', "either token or sha256"),
    "no digest": ('[[token]]\nsha256 = "abc"', "64 hexadecimal digits"),
    "no text": ("[[token]]\ntoken = 3", "token: a text"),
    "odd name": (f'[[token]]\ntoken = "{ONE}"\nname = "*"', "name:"),
    "odd quota": (f'[[token]]\ntoken = "{ONE}"\nmax_sessions = true', "max_sessions:"),
    "odd rate": (f'[[token]]\ntoken = "{ONE}"\ncreates_per_second = 0', "creates_per_second:"),
    "odd scope": (f'[[token]]\ntoken = "{ONE}"\nscope = "all"', "scope: control or metrics"),
    "nobody controls": (f'[[token]]\ntoken = "{ONE}"\nscope = "metrics"', "holds no token"),
}
CASES = [("tokens", *case) for case in WRONG.values()] + [("t.toml", *case) for case in WRONG_TOML.values()]


@pytest.mark.parametrize(("name", "text", "said"), CASES, ids=[*WRONG, *WRONG_TOML])
def test_a_file_that_makes_no_sense_is_refused_without_a_token_in_the_message(file, name, text, said):
    with pytest.raises(ConfigError) as caught:
        Keyring(file=file(text, name))
    told = " ".join(str(caught.value).split())
    assert __import__("re").search(said, told), told
    assert all(token not in told for token in (ONE, TWO))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Keyring(file=str(tmp_path / "none"))


def test_tokens_change_with_their_file(file, caplog):
    keyring = Keyring((THREE,), file(f"lab: {ONE}"))
    version = keyring.version
    keyring.poll()
    assert keyring.version == version
    file(f"lab: {ONE}\nlab: {TWO}")
    keyring.poll()
    assert keyring.find(ONE) == keyring.find(TWO) == Tenant("lab")
    file(f"lab: {TWO}")
    keyring.poll()
    assert (keyring.find(ONE), keyring.find(TWO)) == (None, Tenant("lab"))
    assert keyring.find(THREE) is not None
    assert keyring.version == version + 2
    assert all(token not in caplog.text for token in (ONE, TWO, THREE))


def test_a_file_that_breaks_changes_nothing_and_is_told_once(file, caplog):
    keyring = Keyring(file=file(f"lab: {ONE}"))
    file("lab: short")
    for _ in range(3):
        keyring.poll()
    assert (keyring.find(ONE), keyring.is_sound) == (Tenant("lab"), False)
    assert caplog.text.count("the tokens stay as they are") == 1
    file.path.unlink()
    for _ in range(3):
        keyring.poll()
    assert keyring.find(ONE) == Tenant("lab")
    assert caplog.text.count("the tokens stay as they are") == 2
    file(f"lab: {TWO}")
    keyring.poll()
    assert (keyring.find(ONE), keyring.find(TWO), keyring.is_sound) == (None, Tenant("lab"), True)


def test_a_signal_has_the_file_read_whatever_its_date(file):
    keyring = Keyring(file=file(f"lab: {ONE}"))
    file.path.write_text(f"lab: {TWO}")
    os.utime(file.path, (file.moment, file.moment))
    keyring.poll()
    assert keyring.find(TWO) is None
    keyring.look_again()
    keyring.poll()
    assert keyring.find(TWO) == Tenant("lab")


# ---- at a server -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_token_that_is_gone_stops_at_once_and_its_sessions_stay(serve, file):
    wire = serve(token_file=file(f"lab: {ONE}\nother: {THREE}"))
    play = Play(wire, (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, ONE)).json())
    again = await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, ONE)
    assert again.json() == play.form
    file(f"lab: {TWO}\nother: {THREE}")
    wire.hall.keyring.poll()
    problem(await wire.get(play.path, ONE), "unauthorized")
    assert (await play.agent_step(1, "look")).status_code == 200
    assert (await wire.get(play.path, TWO)).json()["turn"] == 1
    # The same tenant: its create is answered again; it is another one's key.
    assert (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, TWO)).json() == play.form
    assert (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, THREE)).json() != play.form


@pytest.mark.anyio
async def test_a_token_that_is_gone_is_refused_on_open_sockets_too(serve, file):
    wire = serve(token_file=file(f"lab: {ONE}\nlab: {THREE}"))
    play = Play(wire, (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, ONE)).json())
    async with opened(wire, (b"authorization", f"Bearer {ONE}".encode())) as line:
        assert (await line.step(play, 1, "look"))["status"] == 200
        file(f"lab: {THREE}\nlab: {TWO}")
        wire.hall.keyring.poll()
        for op in ("step", "status"):
            fields = of(play, 2, "look") if op == "step" else {"session": play.form["session"]}
            await line.problem("unauthorized", op, **fields)
        file(f"lab: {ONE}")
        wire.hall.keyring.poll()
        assert (await line.step(play, 2, "look"))["status"] == 200


@pytest.mark.anyio
@pytest.mark.parametrize("kept", [True, False])
async def test_no_tenant_takes_all_slots(serve, house, file, kept):
    tokens = file(f"greedy: {ONE} 3\nmodest: {TWO}\ngreedy: {THREE} 3")
    wire = house.start("room", token_file=tokens, max_sessions=5) if kept else serve(token_file=tokens, max_sessions=5)

    async def make(token, **more):
        return await wire.post("/v1/sessions", {"env": "room", "key": key(), **more}, token)

    first = await make(ONE, count=2)
    assert first.status_code == 201
    refused = await make(THREE, count=2)
    assert "2 of 3 are open, and 2 more were asked for" in problem(refused, "quota_reached")["detail"]
    assert refused.headers["retry-after"]
    assert (await make(THREE)).status_code == 201
    problem(await make(ONE), "quota_reached")
    assert (await make(TWO, count=2)).status_code == 201
    problem(await make(TWO), "at_capacity")
    name = first.json()["sessions"][0]["session"]
    assert (await wire.http.delete(f"/v1/sessions/{name}", headers={"authorization": f"Bearer {THREE}"})).is_success
    assert (await make(ONE)).status_code == 201


@pytest.mark.anyio
async def test_a_quota_is_one_over_all_workers_and_durabilities(house, file):
    tokens = file(f"greedy: {ONE} 2")
    one = house.start("room", shared=True, token_file=tokens)
    two = house.start("room", shared=True, fresh=False, token_file=tokens)
    alone = house.start("room", fresh=False, token_file=tokens)

    async def make(wire, **more):
        return await wire.post("/v1/sessions", {"env": "room", "key": key(), **more}, ONE)

    for wire in (one, two):
        assert (await make(wire)).status_code == 201
    for wire in (one, two):
        problem(await make(wire), "quota_reached")
    problem(await make(alone, durability="memory"), "quota_reached")
    house.sql("UPDATE counters SET open = 0")
    assert (await make(alone, durability="memory")).status_code == 201
    assert (await make(alone)).status_code == 201
    problem(await make(alone), "quota_reached")
    problem(await make(alone, durability="memory"), "quota_reached")


@pytest.mark.anyio
async def test_creates_are_bounded_in_time_by_tenant_and_else_by_address(serve, file):
    text = f'[[token]]\nname = "slow"\ntoken = "{ONE}"\ncreates_per_second = 2\n[[token]]\nname = "x"\ntoken = "{TWO}"'
    wire = serve(token_file=file(text, "t.toml"), creates_per_second=1.0, creates_burst=4)

    async def make(token, **more):
        return await wire.post("/v1/sessions", {"env": "room", "key": key(), **more}, token)

    assert (await make(ONE, count=2)).status_code == 201
    refused = await make(ONE, count=2)
    problem(refused, "too_many_creates")
    assert refused.headers["retry-after"] == "1"
    assert (await make(TWO, count=4)).status_code == 201
    problem(await make(TWO), "too_many_creates")
    wire.clock.now += 1
    assert (await make(ONE, count=2)).status_code == 201
    assert (await make(TWO)).status_code == 201
    problem(await make(TWO), "too_many_creates")


@pytest.mark.anyio
async def test_a_group_that_is_too_large_costs_nothing(serve):
    wire = serve(creates_per_second=1.0, creates_burst=4)
    problem(await wire.post("/v1/sessions", {"env": "room", "key": key(), "count": 100_000}), "invalid_request")
    assert (await wire.post("/v1/sessions", {"env": "room", "key": key(), "count": 4})).status_code == 201


@pytest.mark.anyio
async def test_a_create_that_is_refused_for_its_pace_may_be_asked_again(serve):
    wire = serve(creates_per_second=1.0, creates_burst=1)
    await wire.make()
    body = {"env": "room", "key": "mine"}
    problem(await wire.post("/v1/sessions", body), "too_many_creates")
    wire.clock.now += 1
    made = await wire.post("/v1/sessions", body)
    assert made.status_code == 201
    assert (await wire.post("/v1/sessions", body)).content == made.content  # a retry in memory costs nothing


@pytest.mark.anyio
async def test_scopes_of_tokens(serve, file):
    plain = serve()
    assert (await plain.get("/metrics")).status_code == 200
    wire = serve(token_file=file(f"lab: {ONE}"))
    problem(await wire.get("/metrics"), "unauthorized")
    assert (await wire.get("/metrics", ONE)).status_code == 200
    play = Play(wire, (await wire.post("/v1/sessions", {"env": "room", "key": "mine"}, ONE)).json())
    problem(await wire.get("/metrics", play.agent_key), "wrong_scope")
    text = f'[[token]]\nname = "lab"\ntoken = "{ONE}"\n[[token]]\nname = "eye"\ntoken = "{TWO}"\nscope = "metrics"'
    wire = serve(token_file=file(text, "t.toml"))
    problem(await wire.get("/metrics", ONE), "wrong_scope")
    problem(await wire.get("/metrics"), "unauthorized")
    assert (await wire.get("/metrics", TWO)).status_code == 200
    problem(await wire.get("/v1/envs", TWO), "wrong_scope")
