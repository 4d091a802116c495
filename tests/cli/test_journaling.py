"""``agentenvs journal``: beside a server that runs, and after it."""

from __future__ import annotations

import json
import stat

import httpx
import pytest

from agentenvs_servers.run import background


@pytest.fixture
def journal(tmp_path):
    """A journal with a closed session and one at turn 1, and the secrets of both."""
    path = str(tmp_path / "journal.db")
    with background(["household"], journal=path) as url, httpx.Client(base_url=url) as http:
        forms = []
        for number in range(2):
            body = {"env": "household", "key": f"create-key-{number}", "task": {"split": "dev", "index": number}}
            forms.append(http.post("/v1/sessions", json=body).json())
            step = {"episode": forms[-1]["episode"], "turn": 1, "action": "look"}
            assert http.post(f"/v1/sessions/{forms[-1]['session']}/step", json=step).status_code == 200
        http.delete(f"/v1/sessions/{forms[0]['session']}")
        yield path, forms


def _hidden(forms):
    return [form[name] for form in forms for name in ("session", "agent_key")] + ["create-key"]


def test_ls(cli, journal):
    path, forms = journal
    ran = cli("journal", "ls", path)
    assert ran.code == 0
    assert "2 session(s)" in ran.err
    rows = [line.split() for line in ran.out.splitlines() if "Household-v0" in line]
    assert [row[2:7] for row in rows] == [
        ["Household-v0", "dev/0", "closed", "1", "-"],
        ["Household-v0", "dev/1", "open", "1", "1"],
    ]
    (only,) = cli("journal", "ls", path, "--state", "open", "--json").json
    assert (only["number"], only["turn"], only["durability"]) == (1, 1, "group")
    assert cli("journal", "ls", path, "--tenant", "none", "--json").json == []
    assert not [secret for secret in _hidden(forms) if secret in ran.out]


def test_export(cli, journal, tmp_path):
    path, forms = journal
    ran = cli("journal", "export", path, "--records", "records")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [line["kind"] for line in lines] == ["session", "episode", "session", "episode", "turn"]
    assert "2 session(s), 2 episode(s), 1 turn(s), 1 record(s)" in ran.err
    assert not [secret for secret in _hidden(forms) if secret in ran.out]
    (record,) = (tmp_path / "records").iterdir()
    assert record.name == f"{forms[0]['episode']}.jsonl"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert cli("replay", "records").code == 0
    assert cli("journal", "export", path, "--out", "all.jsonl", "--quiet")[1:] == ("", "")
    assert (tmp_path / "all.jsonl").read_text() == ran.out
    assert cli("journal", "export", path, "--out", "no/such/folder").code == 2


def test_prune(cli, journal):
    path, _ = journal
    assert cli("journal", "prune", path).err == "0 session(s) expired, 0 forgotten\n"
    assert cli("journal", "prune", path, "--older-than", "0", "--expired-now", "--vacuum", "--json").json == {
        "expired": 0,
        "forgotten": 1,
    }
    assert len(cli("journal", "ls", path, "--json").json) == 1


@pytest.mark.parametrize(("given", "took"), [("90", 90), ("30m", 1800), ("1.5h", 5400), ("7 d", 604_800)])
def test_times(given, took):
    from agentenvs.cli.journaling import _seconds

    assert _seconds(given) == took


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("ls", "none.db"), "AE105 there is no journal"),
        (("prune", "none.db"), "AE105 there is no journal"),
        (("export", "none.db"), "AE105 there is no journal"),
        (("ls", "none.db", "--state", "shut"), "AE108 no session is 'shut'"),
        (("prune", "none.db", "--older-than", "soon"), "AE108 'soon' is no time"),
        (("ls",), "AE108 Missing argument 'JOURNAL'"),
        ((), "AE108 Missing command"),
    ],
)
def test_mistakes(cli, args, said, tmp_path):
    ran = cli("journal", *args)
    assert ran.code == 2
    assert said in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_away(cli):
    ran = cli("journal", "ls", "postgresql://user:secret@127.0.0.1:1/none")
    assert ran.code == 3
    assert "secret" not in ran.err
