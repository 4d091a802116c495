"""A viewer as a test asks it: by what a page is of, with the answer looked at before anybody else does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from starlette.testclient import TestClient

from agentenvs.view.pages import Pages

SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


@dataclass
class Site:
    """Pages and who asks for them."""

    pages: Pages
    client: TestClient

    def name(self, last: str) -> str:
        """Return the name of the run in the folder that ends so."""
        return next(one.name for one in self.pages.shelf.all() if one.folder.name == last)

    def get(self, path: str, status: int = 200) -> str:
        """Return a page; every page is held to what holds for all."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text[-2000:]
        assert SAFE.items() <= dict(answer.headers).items()
        if "content-disposition" not in answer.headers:
            assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>|<style|\son\w+=|\sstyle=|javascript:", answer.text)
        return answer.text

    def run(self, last: str, query: str = "") -> str:
        """Return the page of a run."""
        return self.get(f"/run/{self.name(last)}{query}")

    def episode(self, last: str, number: int, query: str = "") -> str:
        """Return the page of an episode."""
        return self.get(f"/run/{self.name(last)}/episode/{number}{query}")


def rows(page: str) -> list[int]:
    """Return the numbers of the episodes of a page."""
    return [int(number) for number in re.findall(r'<a id="e(\d+)"', page)]


def text_of(page: str) -> str:
    """Return the words of a page, roughly."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def shares(found: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many episodes were won and lost."""
    won = sum(bool(one["success"]) for one in found)
    return {"won": won, "lost": len(found) - won}
