"""What is vendored is what it says, and small; what pages name is there."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from agentenvs.view import rendering

STATIC = Path(rendering.__file__).parent / "static"


def test_vendored_files_are_as_they_were_taken() -> None:
    lines = (STATIC / "SHA256SUMS").read_text().splitlines()
    listed = dict(reversed(line.split("  ")) for line in lines if not line.startswith("#"))
    assert listed == {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in listed}
    assert {name for name in listed if name.endswith("LICENSE")} == {"htmx.LICENSE", "uPlot.LICENSE"}
    ours = {"theme.js", "view.js", "view.css", "icon.svg", "SHA256SUMS"}
    assert {path.name for path in STATIC.iterdir()} == {*listed, *ours}


def test_a_browser_loads_little() -> None:
    assert sum(len(rendering.static(name)) for name in rendering.STATIC) < 160_000


def test_nothing_names_an_address_elsewhere() -> None:
    ours = ["look.css", "view.css", "theme.js", "view.js"]
    assert [name for name in ours if re.search(rb"https?://|@import|url\(", rendering.static(name))] == []


def test_every_class_that_a_template_uses_is_styled_or_used() -> None:
    sheets = b"".join(rendering.static(name) for name in ("look.css", "view.css", "view.js")).decode()
    pages = "".join(path.read_text() for path in (STATIC.parent / "templates").glob("*.j2"))
    named = {name for group in re.findall(r'class="([\w\- ]+)"', pages) for name in group.split()}
    assert sorted(name for name in named if not re.search(rf"\.{name}\b", sheets)) == []
