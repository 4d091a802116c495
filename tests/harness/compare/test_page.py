"""The page of a comparison: complete in itself, escaped, readable."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from agentenvs.harness.compare import compare, tables, write_page
from agentenvs.harness.report import write_report
from tests.harness.compare.made import episode, outcomes, run

NASTY = "<script>alert(1)</script>\x1b[31m\u202e[bold]" + "x" * 60


@pytest.fixture
def page(tmp_path: Path) -> str:
    first = [episode(index, index % 2 == 0, kind=NASTY if index % 3 else "plain") for index in range(12)]
    second = [episode(index, index % 3 == 0, kind="plain" if index % 2 else None) for index in range(12)]
    runs = [
        run(tmp_path / "a", first, name=NASTY),
        run(tmp_path / "b", second),
        run(tmp_path / "c", outcomes("0" * 12)),
    ]
    found = compare(runs, resamples=100)
    write_page(found, tmp_path / "page.html")
    console = Console(width=80, no_color=True, force_terminal=False)
    with console.capture() as captured:
        for shown in (
            tables.runs(found),
            tables.pairs(found),
            tables.groups(found.pairs[0], "kind"),
            tables.differs(found),
        ):
            console.print(shown)
    assert "\x1b" not in captured.get()
    assert "\u202e" not in captured.get()
    assert max(map(len, captured.get().splitlines())) <= 80
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_page_needs_nothing_from_outside_and_is_well_formed(page: str) -> None:
    assert not re.search(r"(\bsrc=|\bhref=|url\(|@import|<script)", page)
    assert "Content-Security-Policy" in page
    assert "prefers-color-scheme: dark" in page
    for drawn in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = ElementTree.fromstring(drawn)
        assert root.attrib["aria-label"]
        for element in root.iter():
            assert "nan" not in " ".join(element.attrib.values()).lower()


def test_names_are_escaped_and_shown_without_controls(page: str) -> None:
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_says_how_it_was_computed(page: str) -> None:
    for part in ("McNemar, exact", "Bonett and Price", "can show", "Ranks that the comparisons bear", "agent.name"):
        assert part in page


def test_a_report_shows_failures_difficulty_attempts_and_confidence(tmp_path: Path) -> None:
    lines = [
        episode(
            index // 2,
            index % 3 == 0,
            number=index,
            metrics={"confidence": 0.9 if index % 3 == 0 else index % 4 / 5},
            error="gone" if index == 7 else None,
            ending="aborted" if index == 7 else "terminated",
        )
        for index in range(20)
    ]
    run(tmp_path / "a", lines)
    write_report([tmp_path / "a"], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("pass^k: all of k", "does it know when it is right?", "AUROC 1.00", "environment failed"):
        assert part in page
