"""Each broken world is caught, by the right row at least; the same world mended has no breach."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

import pytest

from agentenvs.harness.audit import Report, audit_env

NAMES = sorted(
    path.stem for path in Path(__file__).parent.joinpath("broken").glob("[a-z]*.py") if path.stem != "common"
)


def module(name: str):
    return importlib.import_module(f"tests.audit.broken.{name}")


@cache
def audited(cls: type) -> Report:
    return audit_env(cls, quick=True, split="train")


@pytest.mark.parametrize("name", NAMES)
def test_the_right_row_fails(name):
    broken = module(name)
    report = audited(broken.Broken)
    assert broken.ROW in [row.name for row in report.breaches], str(report)
    assert not report.passed


@pytest.mark.parametrize("name", NAMES)
def test_the_mended_twin_holds(name):
    report = audited(module(name).Mended)
    assert report.breaches == [], str(report)
    assert report.row(module(name).ROW).verdict != "breach" if "own_hack" not in name else True


def test_there_are_more_than_ten():
    assert len(NAMES) > 10
