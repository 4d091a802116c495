"""What each page holds. Everything is read when it is asked for; nothing is kept that a run could outgrow."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlencode

from agentenvs.harness.compare import Difference
from agentenvs.view import asking, curves, episodes, pairs, sidecars, text, tracing
from agentenvs.view.asking import Filter, Rate
from agentenvs.view.finding import Facts, Found, Shelf
from agentenvs.view.rendering import Page

WAIT_SECONDS = 0.35
"""How long a page waits for what is made in the background, before it says that it is being made."""

EXPORTED_ROWS = 1_000
_RUNS = 100
"""Runs on a page."""

_SIDE_TURNS = 600
_KEPT_REPLAYS = 8
_OPEN_TURNS = 12
_POLL: Mapping[str, str] = {"running": "2s", "open": "15s"}

_CHOICES = (("env", "Environment", "world"), ("player", "Player", "player"), ("split", "Split", "split"))


class MissingError(Exception):
    """There is no such thing; the message says what."""


class _Some(NamedTuple):
    """A page of things that were cut in Python."""

    number: int
    pages: int


class Pages:
    """The pages over some folders.

    Args:
        roots: Run folders, or folders that hold some.
        machine: Returns the options of this machine for the environment of a record that is played again.

    Raises:
        DataError: A folder is not there.
    """

    def __init__(self, roots: Sequence[Path], machine: tracing.Machine = lambda record: {}) -> None:
        self.shelf = Shelf(roots)
        self._machine = machine
        self._desk = pairs.Desk()
        self._replays: OrderedDict[Any, tracing.Played] = OrderedDict()
        self._lock = Lock()

    def found(self, name: str, kind: str = "run") -> Found:
        """Return a run by its name in addresses.

        Raises:
            MissingError: There is none.
        """
        one = self.shelf.get(name)
        if one is None or one.kind != kind:
            raise MissingError("There is no such run here. It may have been moved, or lie in another folder.")
        return one

    # ---- the list --------------------------------------------------------------------------------------------------

    def runs(self, given: Mapping[str, str]) -> Page:
        """Return the list of runs."""
        every = self.shelf.all()
        asked = {name: str(given.get(name, "")) for name in ("env", "player", "split", "text")}
        shown = [one for one in every if _is_wanted(one, asked)]
        choices = []
        for name, label, field in _CHOICES:
            values = sorted({str(getattr(one.facts, field)) for one in every if getattr(one.facts, field)})
            choices.append((name, label, values))
        query = urlencode({name: value for name, value in asked.items() if value})
        runs = [one for one in shown if one.kind == "run"]
        pages = max(-(-len(runs) // _RUNS), 1)
        number = min(max(_whole(given.get("page"), 1), 1), pages)
        part = runs[(number - 1) * _RUNS : number * _RUNS]
        context = {
            "total": len(every),
            "shown": shown,
            "evaluations": part,
            "page": _Some(number, pages),
            "page_path": lambda number: _path("/", query, page=number),
            "trainings": [one for one in shown if one.kind == "training"],
            "counted": _counted(part),
            "going": any(one.facts.state == "running" for one in (*part, *shown[:_RUNS])),
            "choices": choices,
            "asked": asked,
            "too_many": self.shelf.too_many,
        }
        return Page(
            "runs.html.j2",
            "Runs",
            [("runs", "")],
            _path("/", query, **({"page": number} if number > 1 else {})),
            context,
            name="runs",
        )

    # ---- a run -----------------------------------------------------------------------------------------------------

    def run(self, name: str, given: Mapping[str, str], *, rows: int = asking.ROWS) -> Page:
        """Return the page of a run.

        Raises:
            MissingError: There is no such run.
        """
        run = self.found(name)
        ready = run.index.follow(WAIT_SECONDS)
        asked = Filter.of(given)
        texts = _texts(run, asked)
        page = asking.page(run.index, asked, _whole(given.get("page"), 1), rows, run.facts.trials)
        facts = run.facts
        whole = asking.whole(run.index, facts.trials)
        if not ready and facts.counted:
            whole = _as_counted(whole, facts)
        base = f"/run/{run.name}"
        poll = "700ms" if not ready or texts is not None else _POLL.get(facts.state)
        context = {
            "run": run,
            "whole": whole,
            "progress": None if ready else run.index.progress,
            "wrong": _wrong(run, ready=ready),
            "families": asking.by(run.index, "kind", facts.trials),
            "difficulties": _known(asking.by(run.index, "difficulty", facts.trials)),
            "endings": asking.by(run.index, "ending"),
            "course": asking.course(run.index),
            "asked": asked,
            "orders": asking.ORDERS,
            "page": page,
            "tasks": {row["number"]: sidecars.task(run.folder, row["number"]) for row in page.rows[:rows]},
            "texts": texts,
            "poll": poll,
            "filtered": lambda column: lambda value: f"{base}?{urlencode({column: value})}#episodes",
            "episode_path": lambda number: _path(f"{base}/episode/{number}", asked.query),
            "page_path": lambda number: _path(base, asked.query, page=number) + "#episodes",
            "rivals": [one for one in self.shelf.all() if _may_compare(run, one)],
            "said": _said(run),
            "command_folder": shlex.quote(run.shown),
        }
        here = _path(base, asked.query, **({"page": page.number} if page.number > 1 else {}))
        return Page(
            "run.html.j2",
            f"{facts.player or run.shown} on {facts.world}",
            [("runs", "/"), (run.shown, base)],
            here,
            context,
            name=run.name,
        )

    # ---- an episode ------------------------------------------------------------------------------------------------

    def episode(self, name: str, number: int, given: Mapping[str, str], *, whole: bool = False) -> Page:
        """Return the page of an episode.

        Args:
            name: Of its run.
            number: Its own.
            given: The query: a filter, ``turn`` and ``trace``.
            whole: All turns on one page.

        Raises:
            MissingError: There is no such run, or nothing is kept of the episode.
        """
        run = self.found(name)
        found = episodes.read(run.folder, number)
        run.index.follow(WAIT_SECONDS)
        line = asking.episode(run.index, number)
        if found is None:
            raise MissingError(f"There is neither a record nor a sidecar of episode {number} in {run.shown}.")
        played = self._played(run, found) if given.get("trace") and found.record else None
        if played is not None and played.turns:
            found = found.with_seen(played.first, played.turns)
        asked = Filter.of(given)
        before, after = asking.beside(run.index, asked, number)
        size = max(len(found.turns), 1) if whole else episodes.TURNS
        pages = max(-(-len(found.turns) // size), 1)
        part = min(max((_whole(given.get("turn"), 1) - 1) // size + 1, 1), pages)
        turns = found.turns[(part - 1) * size : part * size]
        base, extra = f"/run/{run.name}/episode", {"trace": 1} if played else {}
        here = _path(f"{base}/{number}", asked.query, **extra, **({"turn": (part - 1) * size + 1} if part > 1 else {}))
        context = {
            "run": run,
            "episode": found,
            "line": line,
            "turns": turns,
            "open": _opened(found, turns),
            "first_turn": (part - 1) * size + 1,
            "last_turn": (part - 1) * size + len(turns),
            "number": part,
            "pages": pages,
            "size": size,
            "played": played,
            "show_potential": played is not None and played.has_potential,
            "before": before,
            "after": after,
            "episode_path": lambda other, **more: _path(f"{base}/{other}", asked.query, **more),
            "turns_path": lambda turn: _path(f"{base}/{number}", asked.query, **extra, turn=turn) + f"#turn-{turn}",
            "others": asking.elsewhere(run, self.shelf.all(), *found.scenario),
            "policy": {key: value for key, value in found.words.policy.items() if key != "calls"},
            "command_record": shlex.quote(str(Path(run.shown) / episodes.record_name(number))),
            "command_play": _play_command(found),
        }
        crumbs = [("runs", "/"), (run.shown, _path(f"/run/{run.name}", asked.query)), (f"episode {number}", here)]
        title = text.line(found.task, 80) or f"Episode {number}"
        return Page("episode.html.j2", title, crumbs, here, context, name=f"{run.name}-{number}")

    def _played(self, run: Found, found: episodes.Episode) -> tracing.Played | None:
        if found.record is None:
            return None
        key = (run.name, found.record.digest)
        with self._lock:
            if key in self._replays:
                self._replays.move_to_end(key)
                return self._replays[key]
        played = tracing.play(found.record, self._machine)
        with self._lock:
            self._replays[key] = played
            while len(self._replays) > _KEPT_REPLAYS:
                self._replays.popitem(last=False)
        return played

    # ---- two of them -----------------------------------------------------------------------------------------------

    def compare(
        self, names: Sequence[str], given: Mapping[str, str], *, wait: float = WAIT_SECONDS, rows: int = pairs.FLIPS
    ) -> Page:
        """Return the comparison of two runs.

        Raises:
            MissingError: Not two runs are named, or one is not there.
        """
        first, second = self._two(names)
        ready = [one.index.follow(wait) for one in (first, second)]
        paired = self._desk.pair(first, second, wait) if all(ready) else None
        flips = paired.flips if paired else []
        pages = max(-(-len(flips) // rows), 1)
        number = min(max(_whole(given.get("page"), 1), 1), pages)
        base = f"/compare?run={first.name}&run={second.name}"
        context = {
            "first": first,
            "second": second,
            "paired": paired,
            "pending": paired is None,
            "progress": None if all(ready) else min(first.index.progress, second.index.progress),
            "flips": flips[(number - 1) * rows : number * rows],
            "page": _Some(number, pages),
            "page_path": lambda page: f"{base}&page={page}#flips",
            "reach": _reach,
            "command_folder": lambda one: shlex.quote(one.shown),
        }
        here = f"{base}&page={number}" if number > 1 else base
        title = f"{first.facts.player} against {second.facts.player}"
        return Page("compare.html.j2", title, [("runs", "/"), ("comparison", here)], here, context, name="comparison")

    def side(self, names: Sequence[str], given: Mapping[str, str]) -> Page:
        """Return two episodes side by side.

        Raises:
            MissingError: Something named is not there.
        """
        runs = self._two(names)
        numbers = [_whole(given.get(key), -1) for key in ("a", "b")]
        found = [episodes.read(run.folder, number) for run, number in zip(runs, numbers, strict=True)]
        if found[0] is None or found[1] is None:
            raise MissingError("One of the two episodes is not there.")
        aligned = pairs.align(found[0], found[1])
        for run in runs:
            run.index.follow(WAIT_SECONDS)
        names = [run.facts.player or run.shown for run in runs]
        if names[0] == names[1]:
            names = [f"{name} ({run.shown})" for name, run in zip(names, runs, strict=True)]
        shown = aligned.rows[:_SIDE_TURNS]
        at = aligned.breaks_at or 0
        both = f"/compare?run={runs[0].name}&run={runs[1].name}"
        here = f"/compare/episode?run={runs[0].name}&run={runs[1].name}&a={numbers[0]}&b={numbers[1]}"
        context = {
            "runs": runs,
            "episodes": found,
            "lines": [asking.episode(run.index, number) for run, number in zip(runs, numbers, strict=True)],
            "names": names,
            "aligned": aligned,
            "rows": shown,
            "open": {row.number for row in shown if at <= row.number < at + 3 and not row.same},
        }
        crumbs = [("runs", "/"), ("comparison", both), ("side by side", here)]
        return Page(
            "side.html.j2", text.line(found[0].task, 60) or "Side by side", crumbs, here, context, name="side-by-side"
        )

    def _two(self, names: Sequence[str]) -> tuple[Found, Found]:
        if len(names) != 2 or names[0] == names[1]:
            raise MissingError("Choose two runs to compare.")
        return self.found(names[0]), self.found(names[1])

    # ---- training --------------------------------------------------------------------------------------------------

    def training(self, name: str) -> Page:
        """Return the page of a training run.

        Raises:
            MissingError: There is no such run.
        """
        run = self.found(name, "training")
        here = f"/training/{run.name}"
        context = {
            "run": run,
            "found": curves.read(run.folder),
            "poll": _POLL.get(run.facts.state),
            "command_folder": shlex.quote(run.shown),
        }
        return Page(
            "training.html.j2", run.shown, [("runs", "/"), (run.shown, here)], here, context, True, name=run.name
        )

    @staticmethod
    def message(title: str, why: str, status: int) -> Page:
        """Return a page that says what is wrong."""
        return Page("message.html.j2", title, [("runs", "/"), (title, "")], "/", {"why": why}, status=status)


def _is_wanted(one: Found, asked: Mapping[str, str]) -> bool:
    facts = one.facts
    for name, _, field in _CHOICES:
        if asked[name] and str(getattr(facts, field)) != asked[name]:
            return False
    words = " ".join((one.shown, facts.env, facts.player, facts.split, facts.options)).lower()
    return all(word in words for word in asked["text"].lower().split())


def _counted(runs: Sequence[Found]) -> dict[str, Rate | None]:
    """Return how often each run was won: as its manifest says, or as its table does while there is none."""
    found: dict[str, Rate | None] = dict.fromkeys(one.name for one in runs)
    for one in runs:
        facts = one.facts
        if facts.successes is not None and (facts.counted or facts.episodes == 0):
            found[one.name] = Rate("all", facts.episodes or 0, facts.successes, scenarios=facts.scenarios)
    for one in asking.of_time(one for one in runs if one.facts.going):
        found[one.name] = asking.whole(one.index, one.facts.trials).rate
    return found


def _as_counted(whole: asking.Whole, facts: Facts) -> asking.Whole:
    """Return the numbers of a run that is not read to its end, the rate as its manifest has it."""
    made = facts.manifest
    if made is None or facts.episodes is None or facts.successes is None:
        return whole
    reward = made.results.mean_return_millionths / 1e6
    rate = Rate("all", facts.episodes, facts.successes, reward, facts.scenarios)
    return asking.Whole(
        rate, whole.turns, whole.turns_won, made.results.invalid_rate_millionths / 1e6, whole.over_par, whole.failed,
        whole.policy_failed, whole.undone, (None, None), None,
    )  # fmt: skip


def _wrong(run: Found, *, ready: bool) -> list[str]:
    """Return what does not fit in a run."""
    found = [f"{one.file}, line {one.line}: {one.why}" for one in run.index.damage()]
    if not ready:
        return found
    facts = run.facts
    if run.index.torn and not facts.going:
        found.append(f"episodes.jsonl ends in half a line of {run.index.torn} bytes.")
    if facts.manifest is not None:
        counted = asking.whole(run.index, facts.trials).rate
        if (counted.episodes, counted.successes) != (facts.episodes, facts.successes):
            found.append(
                f"The manifest says {facts.successes} of {facts.episodes} episodes were won; "
                f"episodes.jsonl holds {counted.successes} of {counted.episodes}. What is shown is episodes.jsonl."
            )
    return found


def _texts(run: Found, asked: Filter) -> float | None:
    """Return the share of the episodes whose task can be searched, while that is not all and is asked for."""
    if not asked.text:
        return None
    run.index.want_texts()
    known, count = run.index.texts_known(), run.index.count()
    return None if known >= count else known / count


def _known(rates: list[Rate]) -> list[Rate]:
    return [] if all(rate.name == asking.NONE for rate in rates) else rates


def _said(run: Found) -> list[tuple[str, str]]:
    facts = run.facts
    made, plan = facts.manifest, facts.plan
    said = [("environment", f"{facts.env} release {facts.release}"), ("options", facts.options)]
    if made is not None:
        commit = f", commit {made.suite.git_commit[:12]}" if made.suite.git_commit else ""
        changed = " with local changes" if made.suite.dirty else ""
        said += [
            ("run", made.run_id),
            ("made with", f"agentenvs {made.suite.version}{commit}{changed}; {made.machine.python}; {made.machine.os}"),
            ("episode table", made.episode_table_digest),
            ("Merkle root", made.merkle_root),
        ]
    elif plan is not None:
        said += [("run", plan.run_id), ("made with", f"agentenvs {plan.version}")]
    asked = made or plan
    model = None if asked is None else asked.model
    if model is not None:
        said.append(("model", f"{model.provider} {model.id}, sampling {model.sampling}"))
    return [(name, value) for name, value in said if value.strip()]


def _may_compare(run: Found, other: Found) -> bool:
    return (
        other is not run
        and other.kind == "run"
        and other.facts.env == run.facts.env
        and other.facts.split == run.facts.split
    )


def _opened(found: episodes.Episode, turns: Sequence[episodes.Turn]) -> set[int]:
    """Return the turns that are open from the start: all of a short episode, else what stands out, and the last."""
    if len(found.turns) <= _OPEN_TURNS:
        return {turn.number for turn in turns}
    some = [turn.number for turn in turns if turn.notable][:_OPEN_TURNS]
    return {*some, len(found.turns)}


def _play_command(found: episodes.Episode) -> str:
    split, index = found.scenario
    options = found.header.get("options")
    given = [
        f"-o {shlex.quote(f'{name}={text.brief(value)}')}"
        for name, value in sorted(options.items() if isinstance(options, dict) else [])
        if value is not None and not isinstance(value, bool | dict | list)
    ]
    env = shlex.quote(str(found.header.get("env", "ENV")))
    return " ".join(["agentenvs play", env, "--split", shlex.quote(split), "--index", str(index), *given])


def _reach(rows: Sequence[Difference]) -> float:
    """Return how far a scale around 0 must reach."""
    most = max((max(abs(row.low), abs(row.high), abs(row.difference)) for row in rows), default=1.0)
    return next((tens / 10 for tens in (1, 2, 4, 6, 8, 10) if most <= tens / 10), 1.0)


def _whole(value: Any, otherwise: int) -> int:
    try:
        return int(str(value)) if value is not None and len(str(value)) < 12 else otherwise
    except ValueError:
        return otherwise


def _path(base: str, query: str, **more: Any) -> str:
    parts = [query, urlencode(more)]
    asked = "&".join(part for part in parts if part)
    return f"{base}?{asked}" if asked else base
