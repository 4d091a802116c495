"""Reports: run folders in, one self-contained HTML page or a terminal table out.

Everything is read back from the folders, so a report can be made again at any time and shows only what was kept. Text
of agents and worlds is untrusted: the page escapes it, the terminal gets it without control characters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from agentenvs.core.canon import JSON, digest
from agentenvs.core.errors import ContractError, DataError
from agentenvs.harness import measures
from agentenvs.harness.lines import read_lines
from agentenvs.harness.manifest import Manifest, read_manifest
from agentenvs.harness.statistics import BINNING, PASS_ALL, PASS_AT, Calibration, Repeated, repeated, success_interval
from agentenvs.harness.summary import summarize
from agentenvs_scoring.stats import Interval, episodes_to_tell

if TYPE_CHECKING:
    from rich.table import Table

MAX_TRANSCRIPTS = 24
"""Episodes of a page shown turn by turn, shared among its runs; all others are in the run folders."""

_MAX_TURNS_SHOWN = 200
_MAX_TEXT_SHOWN = 4_000
_WANTED_DIFFERENCE = 0.05


@dataclass(frozen=True)
class Run:
    """A run folder, read."""

    folder: Path
    manifest: Manifest
    summary: dict[str, JSON]
    episodes: list[dict[str, JSON]]

    @property
    def name(self) -> str:
        """The policy, with the model where there is one."""
        agent, model = self.manifest.agent, self.manifest.model
        return f"{agent.name} {model.id}" if model else agent.name

    @property
    def sees(self) -> str:
        """What the policy was shown beside plain observations; empty for nothing."""
        listed = json.loads(self.manifest.envs[0].options).get("admissible") is True
        shown = [("the scenario", self.manifest.agent.privileged), ("the admissible actions", listed)]
        return " and ".join(what for what, so in shown if so)

    @property
    def title(self) -> str:
        """Environment and split."""
        entry = self.manifest.envs[0]
        return f"{entry.env_id} · {entry.split}"

    @cached_property
    def transcripts(self) -> list[dict[str, JSON]]:
        """Some episodes with their words: what failed first, since that is what one looks for."""
        chosen = sorted(self.episodes, key=lambda episode: (episode["success"], episode["number"]))[:MAX_TRANSCRIPTS]
        return [{**episode, **_words(self.folder, episode["number"])} for episode in chosen]

    @cached_property
    def infrastructure(self) -> measures.Infrastructure:
        """Episodes that somebody's failure ended, all counted as lost."""
        return measures.infrastructure(self.episodes)

    @cached_property
    def repeats(self) -> list[Repeated]:
        """pass@k and pass^k, where every scenario was played several times."""
        tried = measures.attempts(self.episodes)
        if min((count for _, count in tried), default=0) < 2:
            return []
        return repeated(tried, self.manifest.episode_table_digest.encode())

    @cached_property
    def calibration(self) -> Calibration | None:
        """How far the confidence is right that the policy reports; None where it reports none."""
        return measures.confidence(self.episodes)

    @cached_property
    def difficulties(self) -> list[tuple[str, int, int, Interval]]:
        """Successes and episodes of each difficulty with their interval, where it is known."""
        found: dict[str, list[dict[str, JSON]]] = {}
        for episode in self.episodes:
            if (label := episode.get("difficulty")) is not None:
                found.setdefault(str(label), []).append(episode)
        rows = []
        for label, played in sorted(found.items()):
            tried = measures.attempts(played)
            made = success_interval(tried, self.manifest.episode_table_digest.encode(), purpose=f"difficulty {label}")
            rows.append((label, sum(won for won, _ in tried), len(played), made.interval))
        return rows

    @cached_property
    def over_par(self) -> list[tuple[str, int]]:
        """Won episodes by steps over par: a histogram."""
        extra = Counter(
            _bin(episode["turns"] - episode["par"])
            for episode in self.episodes
            if episode["success"] and episode["par"] is not None
        )
        return [(label, extra[label]) for label in _BINS if extra[label]]


_BINS = ("0", "1-2", "3-5", "6-10", "11-20", "21-40", "41+")
_EDGES = (0, 2, 5, 10, 20, 40)


def _bin(extra: int) -> str:
    return next((label for label, edge in zip(_BINS, _EDGES, strict=False) if extra <= edge), _BINS[-1])


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        DataError: The folder is no run folder, was not finished, or holds other episodes than its manifest names.
    """
    manifest = read_manifest(folder / "manifest.json")
    try:
        _check_entry(manifest)
        lines = read_lines(folder / "episodes.jsonl")
        episodes = [line.form for line in lines]
        summary = summarize([line.summary for line in lines])
        table_digest = digest(episodes)
    except (OSError, ValueError, KeyError, TypeError, ContractError) as error:
        raise DataError(
            f"{folder} is no run folder", why=str(error), fix="give a folder that `agentenvs eval` wrote"
        ) from error
    if table_digest != manifest.episode_table_digest:
        raise DataError(f"the episodes of {folder} were changed after the run", fix="take it from where it was made")
    return Run(folder, manifest, summary, episodes)


def _check_entry(manifest: Manifest) -> None:
    """Refuse a manifest that does not say what was played.

    Raises:
        ValueError: It is not of one environment, or its options are none.
    """
    if len(manifest.envs) != 1:
        raise ValueError(f"its manifest is of {len(manifest.envs)} environments")
    if type(json.loads(manifest.envs[0].options)) is not dict:
        raise ValueError("the options of its manifest are no object")


def measured(run: Run) -> dict[str, JSON]:
    """Return the summary of a run and what else its lines say, as JSON."""
    calibration = run.calibration
    return {
        "summary": run.summary,
        "infrastructure": run.infrastructure._asdict(),
        "difficulties": {
            label: {"successes": won, "episodes": count, "low": low, "high": high}
            for label, won, count, (low, high) in run.difficulties
        },
        "repeats": [row._asdict() for row in run.repeats],
        "conventions": {"pass@k": PASS_AT, "pass^k": PASS_ALL, "ece": BINNING},
        "calibration": None if calibration is None else calibration._asdict(),
    }


def write_report(folders: Sequence[Path], path: Path) -> None:
    """Write the page for one run, or for several side by side.

    Raises:
        DataError: A folder is no run folder.
    """
    runs = [read_run(folder) for folder in folders]
    page = template("report.html.j2").render(
        runs=runs,
        kinds=_kinds(runs),
        steps={run.folder: next_steps(run) for run in runs},
        title=" / ".join(dict.fromkeys(run.title for run in runs)),
        comparable=_comparable(runs),
        transcripts=max(MAX_TRANSCRIPTS // max(len(runs), 1), 1),
        max_turns=_MAX_TURNS_SHOWN,
        conventions=(PASS_AT, PASS_ALL, BINNING),
    )
    path.write_text(page, encoding="utf-8", errors="replace")


def template(name: str) -> Template:
    """Return a template of a page; everything is escaped."""
    environment = Environment(
        loader=PackageLoader("agentenvs.harness"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["percent"] = percent
    environment.filters["number"] = number
    environment.filters["signed"] = signed
    environment.filters["pvalue"] = p_value
    environment.filters["visible"] = visible
    return environment.get_template(name)


def next_steps(run: Run) -> list[tuple[str, str]]:
    """Return what to do after a run: what for, and the command line; an empty one where it is only advice."""
    entry, said = run.manifest.envs[0], run.summary
    steps = [("Check that the actions really lead there", f"agentenvs replay {run.folder}")]
    if not run.manifest.complete:
        steps.insert(0, ("The run is incomplete: these numbers are of the episodes that were started", ""))
    if undone := said.get("undone"):
        turns = "a turn was" if undone == 1 else f"{undone} turns were"
        steps.insert(
            0, (f"The environment failed: {turns} undone, and count as invalid; agentenvs check says more", "")
        )
    lost = next((episode for episode in run.episodes if not episode["success"]), None)
    if lost is not None:
        play = f"agentenvs play {entry.env_id} --split {entry.split} --index {lost['index']}"
        steps.append(("Try an episode it lost yourself", play))
    needed = episodes_to_tell(said["success_rate"], _WANTED_DIFFERENCE)
    if said["scenarios"] < needed:
        what = "episodes" if said["scenarios"] == said["episodes"] else "scenarios"
        steps.append((f"To tell 5 points apart, play about {needed:,} {what}", ""))
    return steps


def table(runs: Iterable[Run]) -> Table:
    """Return the terminal table: a row a run, and its interval."""
    rows = list(runs)
    methods = "; ".join(dict.fromkeys(run.summary["interval"] for run in rows))
    shown = _empty_table("policy", f"Success in %, its interval ({methods}); every started episode counts")
    for run in rows:
        shown.add_row(*_cells(plain(run.name), run.summary))
    return shown


def kind_table(run: Run) -> Table:
    """Return the terminal table of one run: a row a task type, and the whole."""
    shown = _empty_table("task type", f"{plain(run.name)} on {run.title}")
    for kind, row in run.summary["kinds"].items():
        shown.add_row(*_cells(plain(kind), row))
    shown.add_section()
    shown.add_row(*_cells("all", run.summary))
    return shown


def _empty_table(rows: str, title: str) -> Table:
    """Return a table whose columns leave 30 characters for names on a terminal of 80."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
    shown.add_column(rows, overflow="fold", min_width=20)
    for heading in ("n", "success", "interval", "return", "turns", "x par", "invalid"):
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def plain(text: str) -> str:
    """Return text without control characters and markup, fit for a terminal."""
    from rich.markup import escape

    return escape(visible(text))


def visible(text: str) -> str:
    """Return text with every character that does not print (controls, direction marks) replaced by one that does."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def percent(value: float | None) -> str:
    """Spell a share."""
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value: float | None) -> str:
    """Spell a number."""
    return "-" if value is None else f"{value:.2f}"


def signed(value: float) -> str:
    """Spell a difference of shares, in points."""
    return f"{100 * value:+.1f}"


def p_value(value: float) -> str:
    """Spell a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    return [
        name,
        str(row["episodes"]),
        f"{100 * row['success_rate']:.1f}",
        f"{100 * row['success_low']:.1f}-{100 * row['success_high']:.1f}",
        number(row["mean_return"]),
        f"{row['mean_turns']:.1f}",
        number(row["turns_over_par"]),
        f"{100 * row['invalid_rate']:.1f}",
    ]


def _kinds(runs: Sequence[Run]) -> list[str]:
    return sorted({kind for run in runs for kind in run.summary["kinds"]})


def _comparable(runs: Sequence[Run]) -> bool:
    """Return whether all runs played the same scenarios of the same world, judged by the same code as far as known."""
    from agentenvs.harness.compare.grounds import reasons
    from agentenvs.harness.compare.pairing import pair

    if reasons(runs):
        return False
    try:
        pair(runs)
    except DataError:
        return False
    return True


def _words(folder: Path, episode: int) -> dict[str, JSON]:
    try:
        sidecar = json.loads((folder / "sidecars" / f"{episode:06d}.json").read_text(encoding="utf-8"))
        return {
            "first": _short(sidecar["first_observation"] or "(the environment failed before it showed anything)"),
            "said": [
                {**turn, "action": _short(_spelled(turn["action"])), "observation": _short(turn["observation"])}
                for turn in sidecar["turns"][:_MAX_TURNS_SHOWN]
            ],
            "reasons": [str(reason) for reason in sidecar["verdict"]["reasons"]],
        }
    except (OSError, ValueError, LookupError, TypeError):
        return {"first": "(the sidecar is missing or damaged)", "said": [], "reasons": []}


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_SHOWN else text[:_MAX_TEXT_SHOWN] + " […]"


def _spelled(action: JSON) -> str:
    return action if isinstance(action, str) else json.dumps(action, ensure_ascii=False)
