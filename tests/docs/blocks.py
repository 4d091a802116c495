"""Fenced code blocks of a Markdown page, and which of them are run.

Every ```bash and ```python block is run, in the order of the page, unless the next line that is not blank is
``<!-- not run: reason -->``. Blocks of other kinds (```text, ```console) show output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUN = ("bash", "python")

_SETUP = ("git ", "make ", "python3 -m venv", "source ", ".venv/")
_NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")


@dataclass(frozen=True)
class Block:
    """One block, where it begins, and why it is not run if it is not."""

    language: str
    text: str
    where: str
    reason: str | None

    @property
    def needs_setup(self) -> bool:
        """Whether it makes or uses the project's own environment, which takes minutes."""
        return self.language == "bash" and any(line.startswith(_SETUP) for line in self.text.splitlines())


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are to be run or say why not."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found, start, language = [], 0, ""
    for number, line in enumerate(lines):
        fence = re.match(r"\s*```(\w*)\s*$", line)
        if fence is None:
            continue
        if start:
            if language in RUN:
                text = "\n".join(lines[start:number]) + "\n"
                found.append(Block(language, text, f"{page.name}:{start + 1}", _reason(lines[number + 1 :])))
            start, language = 0, ""
        else:
            start, language = number + 1, fence.group(1)
    if start:
        raise ValueError(f"{page.name}:{start}: a block is not closed")
    return found


def needs(page: Path) -> list[str]:
    """Return the packages of extras that a page says its blocks need: ``<!-- needs: torch -->``."""
    return re.findall(r"^<!-- needs: (\w+) -->$", page.read_text(encoding="utf-8"), re.MULTILINE)


def _reason(rest: list[str]) -> str | None:
    following = next((line.strip() for line in rest if line.strip()), "")
    match = _NOT_RUN.fullmatch(following)
    return match.group(1) if match else None
