"""Writes the tables of docs/serving.md from the server itself, so that the page does not drift from it.

python scripts/serving_page.py            # write
python scripts/serving_page.py --check    # exit 1 where a table is not what the server says
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from agentenvs_servers import settings
from agentenvs_servers.app import make_app
from agentenvs_servers.problems import CATALOGUE

PAGE = Path(__file__).resolve().parent.parent / "docs" / "serving.md"


def filled(text: str) -> str:
    """Return the page with its tables made anew; each stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.

    Raises:
        KeyError: The page asks for a table that there is not.
    """
    makers = {"routes": _routes, "settings": _settings, "problems": _problems}
    return re.sub(
        r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{makers[found[2]]()}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def _table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(headings) + " |"]
    lines.append("|" + "---|" * lines[0].count(" |"))
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _routes() -> str:
    document = make_app(["household"]).app.openapi()  # type: ignore[attr-defined]
    rows = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            said = " ".join(operation["description"].split()).replace("``", "`")
            rows.append((f"`{method.upper()} {path}`", said))
    return _table(("route", "does"), rows)


def _settings() -> str:
    rows = [(f"`{one.name}`", _default(one), one.said, one.allowed) for one in settings.documented()]
    return _table(("setting", "default", "what", "allowed"), rows)


def _default(one: settings.Setting) -> str:
    if one.default is None or one.default == "":
        return "none"
    if isinstance(one.default, bool):
        return str(one.default).lower()
    return f"{one.default:,}" if isinstance(one.default, int | float) else f"`{one.default}`"


def _problems() -> str:
    rows = [(f"`{code}`", kind.status, kind.title, kind.fix) for code, kind in CATALOGUE.items()]
    return _table(("code", "status", "title", "what to do"), rows)


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    made = filled(text)
    if not check:
        PAGE.write_text(made, encoding="utf-8")
    elif made != text:
        print("docs/serving.md is not what the server says: run python scripts/serving_page.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
