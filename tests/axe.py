"""Accessibility of a page in a browser, by axe-core: what it violates of WCAG 2.2 A and AA and of good practice.

    assert not violations(page)

Nothing is loaded from a network, and a page's Content-Security-Policy stays as it is: the browser itself runs axe.
"""

from __future__ import annotations

from typing import Any

import pytest


def violations(page: Any, *, besides: tuple[str, ...] = ()) -> list[str]:
    """Return a line for each violated rule with its first places; empty where there is none.

    Args:
        page: A page of playwright's sync API, loaded.
        besides: Rules that are not looked at.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    options: dict[str, Any] = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in besides}}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [_told(one) for one in found]


def schemes(page: Any) -> dict[str, list[str]]:
    """Return the violations in the light and in the dark colour scheme, animations off."""
    found = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        if lines := violations(page):
            found[scheme] = lines
    return found


def _told(one: dict[str, Any]) -> str:
    nodes = one["nodes"]
    first = "; ".join(f"{' '.join(map(str, node['target']))}: {node['html'][:120]}" for node in nodes[:3])
    why = " ".join((nodes[0].get("failureSummary") or "").split())[:300]
    return f"{one['id']} ({one['impact']}, {len(nodes)} places): {first} | {why}"
