from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from agentenvs.core.errors import DataError
from agentenvs.harness import report
from agentenvs.harness.run import RunConfig, evaluate
from tests.harness import playroom  # noqa: F401 - registers the stairs

HERE = "tests.harness.playroom"
VOID = {"meta"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("Climber", "Talker", "Faller"):
        evaluate(RunConfig("stairs", f"{HERE}:{name}", out=folder / name))
    return folder


class _Balanced(HTMLParser):
    """Fails where a tag is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _page(path: Path) -> tuple[str, _Balanced]:
    page = path.read_text(encoding="utf-8")
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    return page, parser


@pytest.mark.parametrize("name", ["Climber", "Talker", "Faller"])
def test_a_page_needs_nothing_from_outside(runs: Path, name: str) -> None:
    page, parser = _page(runs / name / "report.html")
    assert "Content-Security-Policy" in page
    assert not re.search(r"(\bsrc=|\bhref=|url\(|@import)", page)
    assert not parser.seen & {"script", "link", "img", "iframe", "object"}
    assert "prefers-color-scheme: dark" in page


def test_words_of_players_and_worlds_are_escaped_and_shown_without_controls(runs: Path) -> None:
    page, _ = _page(runs / "Talker" / "report.html")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;long&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_shows_types_endings_par_turns_and_what_to_do_next(runs: Path) -> None:
    page, _ = _page(runs / "Climber" / "report.html")
    for part in ("4 of 4 (100.0 %)", "steps over par", "You are at the foot", "&gt; up", "Merkle root", "won</span>"):
        assert part in page
    assert f"agentenvs replay {runs / 'Climber'}" in page
    assert "aria-label" in page
    failed, _ = _page(runs / "Faller" / "report.html")
    for part in (
        "ZeroDivisionError: a banana skin",
        "lost</span>",
        "agentenvs play tests/Stairs-v0 --split few --index 1",
    ):
        assert part in failed


def test_runs_stand_side_by_side(runs: Path, tmp_path: Path) -> None:
    evaluate(RunConfig("stairs", "random", out=tmp_path / "random"))
    report.write_report([runs / "Climber", runs / "Talker", tmp_path / "random"], tmp_path / "report.html")
    page, _ = _page(tmp_path / "report.html")
    assert page.index("playroom:Climber") < page.index("playroom:Talker")
    assert "random (sees the admissible actions)" in page
    assert "not made alike" not in page


def test_runs_that_were_not_made_alike_are_marked(runs: Path, tmp_path: Path) -> None:
    evaluate(RunConfig("stairs", "noop", episodes=2, out=tmp_path / "short"))
    report.write_report([runs / "Climber", tmp_path / "short"], tmp_path / "report.html")
    assert "not made alike" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_number_and_length_of_transcripts_is_bounded(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_TRANSCRIPTS", 2)
    monkeypatch.setattr(report, "_MAX_TURNS_SHOWN", 3)
    monkeypatch.setattr(report, "_MAX_TEXT_SHOWN", 10)
    report.write_report([runs / "Talker"], tmp_path / "report.html")
    page, _ = _page(tmp_path / "report.html")
    assert page.count("<details>") == 2
    assert page.count("(invalid)") == 6
    assert "The first 3 turns are shown." in page
    assert "You are at […]" in page


def test_a_lost_sidecar_does_not_cost_the_page(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "Talker", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "sidecars")
    report.write_report([tmp_path / "run"], tmp_path / "report.html")
    assert "the sidecar is missing" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_no_run(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no manifest at"):
        report.read_run(tmp_path)
    shutil.copytree(runs / "Climber", tmp_path / "run")
    table = tmp_path / "run" / "episodes.jsonl"
    lines = table.read_bytes()
    table.write_bytes(lines[:-20])
    with pytest.raises(DataError, match="is no run folder"):
        report.read_run(tmp_path / "run")
    table.write_bytes(lines.replace(b'"success":true', b'"success":false', 1))
    with pytest.raises(DataError, match="were changed after the run"):
        report.read_run(tmp_path / "run")


def test_rates_are_those_of_the_episodes_whatever_the_summary_says(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "Climber", tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text("{}")
    assert report.read_run(tmp_path / "run").summary == report.read_run(runs / "Climber").summary


def test_tables_fit_a_terminal_and_hold_no_control_characters(runs: Path) -> None:
    run = report.read_run(runs / "Climber")
    row = run.summary["kinds"].pop("<long>")
    run.summary["kinds"]["pick_clean_then_place_in_recep"] = {**row, "mean_turns": 2999.5}
    console = Console(width=80, no_color=True, force_terminal=False)
    with console.capture() as captured:
        console.print(report.table([run]))
        console.print(report.kind_table(run))
    text = captured.get()
    assert "playroom:Climber" in text.replace("\n", "").replace(" ", "")
    assert "pick_clean_then_place_in_recep " in text
    assert "61.0-100.0" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert report.plain("\x1b[2Jred [bold]") == "\N{REPLACEMENT CHARACTER}[2Jred \\[bold]"


def test_next_steps_say_how_many_episodes_would_tell(runs: Path) -> None:
    steps = report.next_steps(report.read_run(runs / "Climber"))
    assert any("To tell 5 points apart, play about 299 episodes" in why for why, _ in steps)
