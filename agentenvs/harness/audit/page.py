"""The table as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from html import escape

from agentenvs.harness.audit.report import Report, earned, number
from agentenvs.harness.audit.rows import Row

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left; vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
td.row { white-space: nowrap; }
.tries { opacity: .75; font-size: .9em; }
.verdict { border-radius: .3rem; padding: .05rem .45rem; font-weight: 600; border: 1px solid currentcolor; }
.held { color: #1a7f37; } .breach { color: #cf222e; } .unclear, .open { color: #9a6700; } .skipped { color: #6e7781; }
tr.breach { background: #cf222e18; }
"""


def page(report: Report) -> str:
    """Return the page."""
    title = f"Audit of {report.spec.id}"
    themes = dict.fromkeys(row.theme for row in report.rows)
    parts = [_section(theme, [row for row in report.rows if row.theme == theme]) for theme in themes]
    lost = "".join(f"<li>{escape(what)}: {escape(', '.join(rows))}</li>" for what, rows in report.lost.items())
    tail = f"<h2>What could not be tried, and what that costs</h2><ul>{lost}</ul>" if lost else ""
    answer = "no breach" if report.passed else f"{len(report.breaches)} breaches"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}: {answer}</h1><p>{escape(report.summary())}; release {escape(report.spec.release)}"
        f"{', the quick size' if report.quick else ''}. Tasks: {escape(_tasks(report))}.</p>"
        f"{''.join(parts)}{tail}</body></html>\n"
    )


def _section(theme: str, rows: list[Row]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("row", "verdict", "ceiling", "earned", "episodes", "evidence"))
    body = "".join(map(_line, rows))
    return f"<h2>{escape(theme)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _line(row: Row) -> str:
    return (
        f'<tr class="{row.verdict}"><td class="row">{escape(row.name)}</td>'
        f'<td><span class="verdict {row.verdict}">{row.verdict}</span></td>'
        f'<td class="number">{number(row.ceiling)}</td><td class="number">{escape(earned(row))}</td>'
        f'<td class="number">{row.episodes or "-"}</td>'
        f'<td>{escape(_printable(row.evidence))}<div class="tries">{escape(row.tries)}</div></td></tr>'
    )


def _printable(text: str) -> str:
    """Return text with nothing in it that cannot be seen: it may come from whoever is audited."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _tasks(report: Report) -> str:
    shown = ", ".join(report.tasks[:12])
    return f"{shown} and {len(report.tasks) - 12} more" if len(report.tasks) > 12 else shown
