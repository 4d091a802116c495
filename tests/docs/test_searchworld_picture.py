"""The picture of a search world is what its universe says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree


def test_the_picture_is_up_to_date(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/searchworld_picture.py", "--check"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_it_is_well_formed_and_says_what_it_shows(root: Path) -> None:
    drawn = ElementTree.parse(root / "docs" / "searchworld.svg").getroot()
    texts = [element.text for element in drawn.iter() if element.text and element.text.strip()]
    assert any(text.startswith("Who is ") for text in texts)
    assert "500 people" in texts
    assert sum(element.tag.endswith("circle") for element in drawn.iter()) > 15
