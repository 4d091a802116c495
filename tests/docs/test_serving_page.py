"""The page on serving says what the server does."""

from __future__ import annotations

import pytest

from agentenvs_servers import connection, run, settings
from scripts import serving_page


def test_the_tables_are_what_the_server_says():
    text = serving_page.PAGE.read_text(encoding="utf-8")
    assert serving_page.filled(text) == text, "run python scripts/serving_page.py"
    assert text.count("<!-- table: ") == 3


def test_every_limit_says_what_it_is():
    said = {one.name: one.said for one in settings.documented(settings.Settings)}
    assert set(said) | {"tokens"} == set(settings.Settings.__dataclass_fields__)
    assert all(said.values())


def test_a_table_that_there_is_not_is_an_error():
    with pytest.raises(KeyError):
        serving_page.filled("<!-- table: none -->\n<!-- end -->")


def test_the_numbers_in_the_text_are_right():
    text = serving_page.PAGE.read_text(encoding="utf-8")
    head = f"{connection.HEAD_SECONDS:g} seconds and {connection.MOST_HEAD_BYTES // 1024} KiB"
    assert f"has {head}, and a connection may wait {run.KEEP_ALIVE_SECONDS} seconds" in text
    assert f"a token of {settings.LEAST_TOKEN_CHARACTERS} characters or more" in text
