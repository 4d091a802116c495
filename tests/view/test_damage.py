"""A folder may be half written, damaged or hostile: pages say so, and none of them fails."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.actions import End
from agentenvs.view import sidecars, text
from tests.view.site import Site, rows, text_of

View = Callable[..., Site]


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A run of one's own to break."""
    return Path(shutil.copytree(made / "prior", tmp_path / "copy"))


def everything(site: Site, name: str) -> str:
    """Open all pages of a run, and return what its own says."""
    site.get("/")
    said = site.run(name)
    site.get(f"/run/{site.name(name)}?export=1")
    for number in (0, 1, 2):
        for query in ("", "?trace=1", "?export=1"):
            assert site.client.get(f"/run/{site.name(name)}/episode/{number}{query}").status_code in (200, 404)
    return text_of(said)


def test_half_a_line_and_nonsense_are_named(copy: Path, view: View) -> None:
    table = copy / "episodes.jsonl"
    good = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"".join([*good[:5], b'{"number": "six"}\n', b"[]\n", b"\xff\xfe\n", good[3], good[6][:40]]))
    said = everything(view(copy), "copy")
    assert "line 6" in said
    assert "line 7" in said
    assert "episode 3 is listed twice" in said
    assert "half a line of 40 bytes" in said
    assert "What is shown is episodes.jsonl" in said


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "episodes.jsonl"])
@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\x00\xff", b'{"schema_version": 1}', None])
def test_a_broken_file_breaks_no_page(copy: Path, view: View, name: str, data: bytes | None) -> None:
    if name == "plan.json":
        (copy / "manifest.json").unlink()
    (copy / name).unlink()
    if data is not None:
        (copy / name).write_bytes(data)
    everything(view(copy), "copy")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "episodes.jsonl"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_not_waited_for(
    copy: Path, view: View, name: str, make: Callable[[Path], None]
) -> None:
    (copy / name).unlink()
    make(copy / name)
    assert f"{name} is no regular file" in everything(view(copy), "copy")


def test_a_changed_record_is_shown_and_said_to_be_changed(copy: Path, view: View) -> None:
    record = copy / "records" / "000001.jsonl"
    record.write_bytes(record.read_bytes().replace(b'"turn":2', b'"turn":3', 1))
    said = text_of(view(copy).episode("copy", 1))
    assert "breaks the chain" in said
    assert "go to" in said


@pytest.mark.parametrize("data", [b"", b"not json\n", b'{"kind":"header","h":1}\n', b'{"kind":"turn"}\n[]\n7\n', None])
def test_a_damaged_record_leaves_what_the_sidecar_has(copy: Path, view: View, data: bytes | None) -> None:
    record = copy / "records" / "000000.jsonl"
    record.unlink()
    if data is not None:
        record.write_bytes(data)
    assert "Your task is to" in view(copy).episode("copy", 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"turns": 5, "policy": [1], "first_observation": 3}',
        b'{"turns": [1, {"action": {}}]}',
        None,
    ],
)
def test_a_damaged_sidecar_leaves_what_the_record_has(copy: Path, view: View, data: bytes | None) -> None:
    sidecar = copy / "sidecars" / "000002.json"
    sidecar.unlink()
    if data is not None:
        sidecar.write_bytes(data)
    site = view(copy)
    assert 'id="turn-1"' in site.episode("copy", 2)
    assert "Your task is to" in site.episode("copy", 2, "?trace=1")


def test_nothing_outside_a_run_is_read(copy: Path, view: View, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"first_observation": "the secret", "turns": []}\n')
    for name in ("sidecars/000000.json", "records/000000.jsonl"):
        (copy / name).unlink()
        (copy / name).symlink_to(secret)
    os.mkfifo(copy / "sidecars" / "000070.json")
    shutil.rmtree(copy / "records")
    (copy / "records").symlink_to(tmp_path)
    site = view(copy)
    name = site.name("copy")
    for path in ("episode/0", "episode/0/record", "episode/0/sidecar", "episode/70", "episode/70/sidecar"):
        answer = site.client.get(f"/run/{name}/{path}")
        assert answer.status_code == 404
        assert "the secret" not in answer.text
    assert "is a link" in site.episode("copy", 2)


class Hostile:
    """Says what would do something anywhere but here."""

    SAID = (
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \u2066\x00",
        {"tool": "</pre><script>alert(3)</script>", "arguments": {"'\"><svg onload=alert(4)>": "{{ 7 * 7 }}"}},
        {"message": "<a href='javascript:alert(5)'>"},
        {"malformed": ["<iframe srcdoc=x>"], "why": "<b>"},
        "&lt;script&gt; \ud800",
    )

    def reset(self, spec: Any, task: Any) -> None:
        self.turn = 0

    def act(self, observation: Any) -> Any:
        self.turn += 1
        return self.SAID[self.turn - 1] if self.turn <= len(self.SAID) else End("<u>")

    def sidecar(self) -> Any:
        raw = {"role": "assistant", "content": "<script>alert(6)</script>"}
        return {"calls": [{"turn": 1, "said": raw, "raw": "</pre><script>", "tokens_in": 3, "tokens_out": "<b>"}]}


def test_words_of_agents_are_only_words(played: Callable[..., Path], view: View) -> None:
    folder = played("hostile", Hostile())
    site = view(folder)
    for query in ("", "?trace=1", "?export=1"):
        page = site.client.get(f"/run/{site.name('hostile')}/episode/0{query}").text
        body = page[page.index("<main") :]
        for tag in ("<script", "<img", "<iframe", "<b>", "<u>", "<svg onload", "<a href='java"):
            assert tag not in body
        assert "&lt;script&gt;alert(1)" in body
        for char in "\x1b\x07\x00\u202e\u2066\ud800":
            assert char not in page
        for mark in ("ESC", "BEL", "RLO", "LRI"):
            assert f'">{mark}</span>' in body


def test_names_of_a_manifest_are_only_words(copy: Path, view: View) -> None:
    for file in (copy / "manifest.json", copy / "plan.json"):
        form = json.loads(file.read_text())
        form["agent"]["name"] = "\"><script>alert('\u202e')</script>"
        file.write_text(json.dumps(form))
    page = view(copy).get("/")
    assert "<script>alert" not in page
    assert "[RLO]" in page


def test_every_character_that_does_not_print_is_marked() -> None:
    import unicodedata

    for code in [*range(0x3000), *range(0xD800, 0x11000), *range(0xE0000, 0xE0200)]:
        char = chr(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and char not in "\n\t":
            assert char not in text.marked(f"a{char}b"), hex(code)
            assert char not in text.plain(f"a{char}b"), hex(code)


def test_long_texts_are_cut_and_say_so() -> None:
    assert "characters more" in text.marked("x" * 30_000)
    assert len(text.marked("x" * 10_000_000)) < 21_000


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        ("-= Welcome =-\n\nYou see a bed.\n\nYour task is to: put a mug\non a desk.", "put a mug on a desk."),
        ("WebShop [SEP] Instruction: [SEP] I want a lamp [SEP] Search", "I want a lamp"),
        ("Rules.\n\nWho is the boss of Ann?", "Who is the boss of Ann?"),
        ("", ""),
    ],
)
def test_the_task_is_found_in_the_first_words(first: str, asked: str) -> None:
    assert sidecars.instruction(first) == asked


def test_a_first_observation_longer_than_the_head_is_still_searched(tmp_path: Path) -> None:
    (tmp_path / "sidecars").mkdir()
    form = {"number": 0, "first_observation": "Your task is to: find it.\n\n" + 'x"\n' * 50_000, "turns": []}
    (tmp_path / "sidecars" / "000000.json").write_text(json.dumps(form))
    assert sidecars.task(tmp_path, 0) == "find it."


def test_rows_stand_where_the_page_asks_beyond_the_end(copy: Path, view: View) -> None:
    (copy / "episodes.jsonl").write_text("")
    assert rows(view(copy).run("copy", "?page=5")) == []
