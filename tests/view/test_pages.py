"""What the pages say is what the folders hold; filters, pages and addresses; and nothing is ever written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import registry
from agentenvs.harness.compare import compare
from agentenvs.harness.report import percent, read_run
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs.harness.statistics import one_trial_each
from tests.envs.fixtures import register_fixtures
from tests.harness.toys import Counter
from tests.view.conftest import EPISODES
from tests.view.site import Site, rows, shares, text_of


def lines(made: Path, run: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (made / run / "episodes.jsonl").read_text().splitlines()]


def test_the_list_shows_every_run_with_its_interval(site: Site, made: Path) -> None:
    page = text_of(site.get("/"))
    for policy in ("expert", "prior"):
        said = read_run(made / policy).summary
        assert f"{percent(said['success_rate'])} {100 * said['success_low']:.1f}" in page
    assert "grpo, seed 3" in page


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("player=prior", {"prior"}),
        ("env=Household-v0", {"prior", "expert"}),
        ("split=dev&player=expert", {"expert"}),
        ("text=limit", {"prior", "expert"}),
        ("text=TRAIN+grpo", {"training"}),
        ("player=nobody", set()),
    ],
)
def test_the_list_is_filtered(site: Site, query: str, there: set[str]) -> None:
    page = site.get(f"/?{query}")
    assert {name for name in ("prior", "expert", "training") if site.name(name) in page} == there


def test_many_runs_are_paged(view: Callable[..., Site], made: Path, tmp_path: Path) -> None:
    for number in range(130):
        folder = tmp_path / "many" / f"r{number:03d}"
        folder.mkdir(parents=True)
        (folder / "plan.json").symlink_to(made / "prior" / "plan.json")
    site = view(tmp_path / "many")
    assert site.get("/").count('id="run-') == 100
    assert site.get("/?page=2").count('id="run-') == 30
    assert "page=2" in site.get("/?split=dev")


def test_a_run_says_what_its_folder_holds(site: Site, made: Path) -> None:
    page, said = text_of(site.run("prior")), read_run(made / "prior").summary
    assert f"success {percent(said['success_rate'])} 95 % interval, Wilson {100 * said['success_low']:.1f}" in page
    assert f"invalid turns {percent(said['invalid_rate'])}" in page
    for kind, row in said["kinds"].items():
        assert f"{kind} {row['episodes']} {percent(row['success_rate'])}" in page.replace(" _", "_").replace("_ ", "_")
    for ending, count in said["endings"].items():
        assert f"{ending} {count}" in page


def test_trials_of_a_scenario_are_no_scenarios_of_their_own(view: Callable[..., Site], tmp_path: Path) -> None:
    run = RunConfig("household", "prior", episodes=8, trials=3, options={"limit": 11}, out=tmp_path / "thrice")
    evaluate(run)
    site = view(tmp_path)
    said = one_trial_each(read_run(tmp_path / "thrice").summary["successes"], 24, 8)
    shown = f"{100 * said.low:.1f} \u2013 {100 * said.high:.1f} %"
    page = text_of(site.run("thrice"))
    assert f"95 % interval, Wilson, a scenario as one trial {shown}" in page
    assert shown in text_of(site.get("/"))


def test_episodes_are_filtered_and_paged(site: Site, made: Path) -> None:
    found = lines(made, "prior")
    lost = [one["number"] for one in found if not one["success"]]
    assert sorted(rows(site.run("prior", "?outcome=lost"))) == sorted(lost)
    assert rows(site.run("prior", "?outcome=failed")) == []
    assert len(rows(site.run("prior"))) == 50
    assert rows(site.run("prior", "?page=2")) == list(range(50, EPISODES))
    assert rows(site.run("prior", "?page=99")) == list(range(50, EPISODES))
    kind = found[0]["kind"]
    assert rows(site.run("prior", f"?family={kind}")) == [one["number"] for one in found if one["kind"] == kind][:50]
    turns = [found[number]["turns"] for number in rows(site.run("prior", "?order=-turns"))]
    assert turns == sorted(turns, reverse=True)
    invalid = [one["number"] for one in found if one["invalid"]]
    assert rows(site.run("prior", "?invalid=some&ending=&page=x")) == invalid
    assert f"{shares(found)['won']} won" in text_of(site.run("prior", "?outcome=won"))


def test_the_text_of_tasks_is_searched(site: Site, made: Path) -> None:
    def first(number: int) -> str:
        form = json.loads((made / "prior" / "sidecars" / f"{number:06d}.json").read_text())
        return str(form["first_observation"]).partition("Your task is to: ")[2]

    wanted = first(7).split()[-1].strip(".")
    expected = [number for number in range(EPISODES) if wanted in first(number)]
    run = site.pages.found(site.name("prior"))
    site.run("prior", f"?text={wanted}")
    run.index.read_texts()
    assert rows(site.run("prior", f"?text={wanted}"))[:50] == expected[:50]
    assert rows(site.run("prior", "?text=dev/7")) == [7]
    assert rows(site.run("prior", "?text=%25")) == []


def test_an_episode_is_shown_turn_by_turn(site: Site, made: Path) -> None:
    page = site.episode("prior", 3)
    words = text_of(page)
    sidecar = json.loads((made / "prior" / "sidecars" / "000003.json").read_text())
    for number, turn in enumerate(sidecar["turns"], 1):
        assert f'id="turn-{number}"' in page
        assert turn["action"] in words
        assert " ".join(turn["observation"].split())[:200] in words
    for reason in sidecar["verdict"]["reasons"]:
        assert reason in words
    assert "agentenvs replay" in words
    assert "agentenvs play" in words


def test_a_record_and_a_sidecar_are_handed_out_as_they_are(site: Site, made: Path) -> None:
    name = site.name("prior")
    for what, path in (("record", "records/000003.jsonl"), ("sidecar", "sidecars/000003.json")):
        answer = site.client.get(f"/run/{name}/episode/3/{what}")
        assert answer.content == (made / "prior" / path).read_bytes()
        assert answer.headers["content-disposition"].startswith("attachment; ")


def test_an_episode_is_played_again_and_seen_from_inside(site: Site) -> None:
    page = text_of(site.episode("prior", 3, "?trace=1"))
    assert "every observation, reward and state is as recorded" in page
    assert "learned" in page
    assert "world changed" in page
    assert "learned" not in text_of(site.episode("prior", 3))


def test_a_filter_goes_from_episode_to_episode(site: Site, made: Path) -> None:
    lost = [one["number"] for one in lines(made, "prior") if not one["success"]]
    page = site.episode("prior", lost[1], "?outcome=lost")
    paths = dict(re.findall(r'data-(before|after)="([^"]+)"', page))
    assert {name: int(path.rpartition("/")[2].partition("?")[0]) for name, path in paths.items()} == {
        "before": lost[0],
        "after": lost[2],
    }
    assert all(path.endswith("?outcome=lost") for path in paths.values())


def test_two_runs_are_compared(site: Site, made: Path) -> None:
    pair = f"?run={site.name('prior')}&run={site.name('expert')}"
    site.pages.compare([site.name("prior"), site.name("expert")], {}, wait=60)
    page = site.get(f"/compare{pair}")
    found = compare([read_run(made / policy) for policy in ("prior", "expert")])
    whole = found.pairs[0].whole
    words = text_of(page)
    assert f"{100 * whole.difference:+.1f} points" in words
    assert f"{100 * whole.low:+.1f} to {100 * whole.high:+.1f}" in words
    assert whole.outcomes is not None
    flips = re.findall(r"&amp;a=(\d+)&amp;b=(\d+)", page)
    assert len(flips) == whole.outcomes["first"] + whole.outcomes["second"]
    one, other = (lines(made, policy) for policy in ("prior", "expert"))
    assert all(one[int(a)]["success"] != other[int(b)]["success"] for a, b in flips)


def test_two_episodes_stand_side_by_side(site: Site, made: Path) -> None:
    names = f"run={site.name('prior')}&run={site.name('expert')}"
    actions = [
        [turn["action"] for turn in json.loads((made / policy / "sidecars" / "000005.json").read_text())["turns"]]
        for policy in ("prior", "expert")
    ]
    at = next(place for place, pair in enumerate(zip(*actions, strict=False), 1) if pair[0] != pair[1])
    page = site.get(f"/compare/episode?{names}&a=5&b=5")
    assert f"To the first difference: turn {at}<" in page
    assert page.index('id="first-difference"') < page.index(f'id="turn-{at}"')
    same = site.get(f"/compare/episode?run={site.name('prior')}&run={site.name('expert')}&a=5&b=6")
    assert "two different scenarios" in same


def test_what_both_played_alike_stands_once(view: Callable[..., Site], made: Path) -> None:
    site = view(made, made.parent / "yardstick")
    page = site.get(f"/compare/episode?run={site.name('prior')}&run={site.name('yardstick')}&a=9&b=9")
    alike = page[: page.index('id="first-difference"')]
    assert alike.count('<span class="tag">the same</span>') == 4
    assert page.count('<span class="tag">the same</span>') == 4
    assert "To the first difference: turn 5<" in page


class Desk:
    """Asks, refunds and ends, and keeps what a model said."""

    def reset(self, spec: Any, task: Any) -> None:
        self.said = iter(
            [{"message": "Which order?"}, {"tool": "refund", "arguments": {"order": "A-1"}}, {"end": "that is all"}]
        )

    def act(self, observation: Any) -> Any:
        return next(self.said)

    def sidecar(self) -> Any:
        call = {"turn": 2, "tokens_in": 1200, "tokens_out": 34, "tokens_cached": 1000, "seconds": 1.5, "repaired": True}
        said = {"role": "assistant", "content": "I refund it."}
        return {"model": "m", "calls": [{**call, "said": said, "raw": '{"choices": [{"text": "I refund it."}]}'}]}


def test_tools_messages_and_replies_of_models_are_shown(
    played: Callable[..., Path], view: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    register_fixtures()
    site = view(played("desk", Desk(), registry.make("clerk")))
    words = text_of(site.episode("desk", 0))
    for there in (
        "to the user Which order?",
        "calls refund",
        "&#34;order&#34;: &#34;A-1&#34;",
        "ends the episode that is all",
        "model call: 1,200 tokens in (1,000 cached), 34 out, 1.5 s repaired",
        "said I refund it. raw reply",
    ):
        assert there in words
    inside = text_of(site.episode("desk", 0, "?trace=1"))
    assert "every observation, reward and state is as recorded" in inside
    assert "result of refund" in inside


def test_a_world_that_is_not_here_is_not_played_again(
    played: Callable[..., Path], view: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: spec for name, spec in registry._registered.items() if name != Counter.spec.id}
    monkeypatch.setattr(registry, "_registered", others)
    site = view(played("toy", Desk(), Counter()))
    assert "It could not be played again: " in site.episode("toy", 0, "?trace=1")


def test_others_who_played_the_scenario_are_named(site: Site) -> None:
    site.run("expert")
    page = site.episode("prior", 5)
    assert f"/run/{site.name('expert')}/episode/5" in page


def test_a_training_run_shows_its_curves_and_the_same_as_tables(site: Site) -> None:
    page = site.get(f"/training/{site.name('training')}")
    assert page.count("data-chart=") == 6
    words = text_of(page)
    assert "held-out success, step 32 64.0 %" in words
    assert "Steps as a table" in words


@pytest.mark.parametrize(
    "path",
    [
        "/run/..%2f..%2fetc",
        "/run/nobody",
        "/run/{prior}/episode/999999",
        "/run/{prior}/episode/-1",
        "/run/{prior}/episode/%2e%2e%2fmanifest/record",
        "/run/{prior}/episode/1e3",
        "/run/{prior}/episode/3/../../../etc/passwd",
        "/run/{training}",
        "/training/{prior}",
        "/static/..%2fview.js",
        "/static/SHA256SUMS",
        "/compare?run={prior}",
        "/compare?run={prior}&run={prior}",
        "/compare?run={prior}&run=..%2f..",
        "/compare/episode?run={prior}&run={expert}&a=0&b=777",
        "/docs",
        "/openapi.json",
    ],
)
def test_what_is_not_there_is_not_there(site: Site, path: str) -> None:
    names = {name: site.name(name) for name in ("prior", "expert", "training")}
    assert site.client.get(path.format(**names)).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7575", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("192.168.1.4:7575", 200),
        ("evil.example", 421),
        ("localhost.evil.example:7575", 421),
        ("", 421),
    ],
)
def test_only_names_that_are_meant_are_answered(site: Site, host: str, status: int) -> None:
    assert site.client.get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(site: Site, method: str) -> None:
    assert site.client.request(method, "/").status_code == 405


def test_nothing_is_written_into_a_run(site: Site, made: Path) -> None:
    def everything() -> list[tuple[str, int, int]]:
        found = []
        for place, _, names in os.walk(made):
            for name in names:
                stat = os.stat(Path(place) / name)
                found.append((str(Path(place) / name), stat.st_size, stat.st_mtime_ns))
        return sorted(found)

    before = everything()
    site.get("/")
    site.run("prior", "?text=mug")
    site.episode("prior", 2, "?trace=1")
    site.get(f"/run/{site.name('prior')}?export=1")
    site.get(f"/compare?run={site.name('prior')}&run={site.name('expert')}&export=1")
    assert everything() == before


def test_files_of_ours_are_kept_by_browsers_and_pages_are_not(site: Site) -> None:
    assert "immutable" in site.client.get("/static/look.css").headers["cache-control"]
    assert site.client.get("/").headers["cache-control"] == "no-store"
