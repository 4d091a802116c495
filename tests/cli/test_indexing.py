"""``runs``: the index over run folders on the command line."""

from __future__ import annotations

import csv
import json

import pytest

PRICED = """
class Cheap:
    cost, command = 2, "look"
    def reset(self, spec, task):
        self.usage = {"tokens_in": 1, "tokens_out": 1, "cost_microusd": self.cost}
    def act(self, observation): return self.command

class Dear(Cheap):
    cost = 5
"""


@pytest.fixture
def two(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTENVS_RUNS_DB", str(tmp_path / "index.db"))
    for policy in ("oracle", "noop"):
        cli("eval", "household", "--policy", policy, "--episodes", "3", "--out", f"all/{policy}", "-o", "limit=30")


@pytest.mark.usefixtures("two")
def test_from_folders_to_a_table(cli):
    first = cli("runs", "index", "all", "--tag", "demo")
    assert (first.code, first.out) == (0, "2 run(s): 2 new\n")
    assert cli("runs", "index", "all").out == "2 run(s): 2 unchanged\n"
    shown = cli("runs", "ls", "--env", "household", "--tag", "demo", "--since", "1h")
    assert "oracle" in shown.out
    assert "2 run(s)" in shown.err
    (run,) = cli("runs", "ls", "--policy", "oracle", "--json").json
    assert (run["successes"], run["state"], run["tags"]) == (3, "complete", ["demo"])
    one = cli("runs", "show", run["id"][:18])
    assert "by_ending" in one.out
    assert "terminated 3/3" in one.out
    assert cli("runs", "show", "all/oracle", "--json").json["id"] == run["id"]


@pytest.mark.usefixtures("two")
def test_rows_are_exported(cli, tmp_path):
    cli("runs", "index", "all")
    assert cli("runs", "export", "all/noop", "--csv", "noop.csv").err == "3 episode(s) in noop.csv\n"
    rows = list(csv.DictReader((tmp_path / "noop.csv").open()))
    assert [row["run_policy"] for row in rows] == ["noop"] * 3
    assert cli("runs", "export", "--csv", "no/where.csv").code == 2
    for more in ((), ("--csv", "a", "--parquet", "b")):
        assert "give --csv FILE or --parquet FILE" in cli("runs", "export", *more).err


@pytest.mark.usefixtures("two")
def test_rm_takes_out_the_entry_and_leaves_the_folder(cli, tmp_path):
    cli("runs", "index", "all")
    assert cli("runs", "rm", "all/noop").code == 0
    assert [run["policy"] for run in cli("runs", "ls", "--json").json] == ["oracle"]
    assert (tmp_path / "all" / "noop" / "episodes.jsonl").exists()
    assert cli("runs", "rm", "all/noop").code == 2


@pytest.mark.usefixtures("two")
def test_what_is_damaged_is_named_with_its_place(cli, tmp_path):
    with (tmp_path / "all" / "noop" / "episodes.jsonl").open("a") as table:
        table.write("{}\n")
    (tmp_path / "all" / "broken").mkdir()
    (tmp_path / "all" / "broken" / "plan.json").write_text("{}")
    ran = cli("runs", "index", "all")
    assert ran.code == 1
    assert "all/noop/episodes.jsonl:4: 'usage' is missing" in ran.err.replace("usage is", "'usage' is")
    assert "broken" in ran.err
    assert len(cli("runs", "ls", "--json").json) == 2


def test_the_frontier_is_a_table_and_a_picture(cli, tmp_path):
    (tmp_path / "priced.py").write_text(PRICED)
    for policy in ("priced:Cheap", "priced:Dear", "oracle"):
        cli("eval", "household", "--policy", policy, "--episodes", "4", "--out", f"all/{policy[-5:]}", "-o", "limit=30")
    db = ("--db", "r.db")
    cli("runs", "index", "all", *db)
    ran = cli("runs", "frontier", "--svg", "f.svg", *db)
    assert ran.code == 0, ran.err
    places = {row["name"]: row["place"] for row in cli("runs", "frontier", "--json", *db).json}
    assert places == {"priced:Cheap": "frontier", "priced:Dear": "open", "oracle": "unpriced"}
    assert "within the noise" in ran.out
    picture = (tmp_path / "f.svg").read_text()
    assert picture.count("<circle") == 2
    assert "no known cost: oracle" in picture
    cli("eval", "household", "--policy", "noop", "--episodes", "2", "--out", "all/other", "-o", "limit=30")
    cli("runs", "index", "all/other", *db)
    assert "they differ in the scenarios that were played" in cli("runs", "frontier", *db).err
    assert "there are no such runs" in cli("runs", "frontier", "--tag", "none", *db).err


def test_json_is_all_there_is_on_stdout(cli):
    ran = cli("runs", "index", "nothing", "--db", "r.db", "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["error"]["code"] == "AE105"
