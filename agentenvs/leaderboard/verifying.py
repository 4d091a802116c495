"""Whether a submission is what it says: the whole check, from its manifest to the last digest of every replay.

Nothing that is returned was told by the bundle but what is named so (names, tokens, money). All numbers are counted
from the episodes as they were played again here. Runs in a process of its own (:mod:`~agentenvs.leaderboard.clean`).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical, canonical_bytes
from agentenvs.core.canon import digest as digest_of
from agentenvs.core.environment import Environment
from agentenvs.core.errors import AgentEnvsError, ContractError, RecordError, UserError
from agentenvs.core.record import Record, parse_records
from agentenvs.core.replay import comparisons
from agentenvs.core.spec import EnvSpec
from agentenvs.core.verdict import Ending
from agentenvs.harness.lines import Line, read_lines
from agentenvs.harness.manifest import Manifest, merkle_root
from agentenvs.leaderboard import boards
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.bundle import TABLE
from agentenvs.leaderboard.refusals import Refused
from agentenvs.leaderboard.unpacking import Bundle
from agentenvs_scoring.cards import panel_of

Progress = Callable[[int, int], None]

_GRADING = (
    "reward",
    "return",
    "verdict.reward",
    "verdict.success",
    "verdict.components",
    "verdict.reasons",
    "verdict.facts",
)
"""Fields a change of scoring may move; all others are of the world."""


@dataclass(frozen=True, slots=True)
class Played:
    """An episode as it was played again."""

    place: int
    """Of its scenario on the board."""
    record: str
    """Digest of its record."""
    actions: str
    """Digest of its scenario and what was done in it, whoever signed for it."""
    moves: str
    """The same of what changed the world alone: whoever pads another's play with idle turns does not change this."""
    success: bool
    reward: float
    turns: int
    invalid: int
    ending: Ending
    kind: str | None = None
    difficulty: str | None = None
    failed: bool = False
    """Whether its world or server failed: it counts 0, and is shown."""
    scored: tuple[bool, float] | None = None
    """Success and reward under the scoring it was played with, where that is another."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a submission is worth."""

    episodes: tuple[Played, ...]
    """In order of number."""
    records_root: str
    player: str | None
    """Name of the environment's own player that made it, as its manifest says."""
    told: Mapping[str, JSON] = field(default_factory=dict)
    """What the manifest says and nobody proved: agent, model, tokens, money, episodes that were begun again."""

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: Mapping[str, JSON]) -> Verified:
        """Read back what :meth:`to_json` wrote."""
        return cls(
            tuple(
                Played(**{**one, "scored": None if one["scored"] is None else tuple(one["scored"])})
                for one in form["episodes"]
            ),
            form["records_root"],
            form["player"],
            form["told"],
        )


@dataclass(frozen=True, slots=True)
class Terms:
    """What a verification holds a bundle to."""

    hosted: bool = False
    """Whoever hosted the run vouches for it: it may come without manifest."""
    anchor: bool = False
    """A yardstick of the board's own: it may be privileged, and may want its own options."""
    regrade: bool = False
    """Whether another scoring than the one it was played with is what is asked for."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Options of the machine, such as a folder of data."""


def verify(bundle: Bundle, board: Board, terms: Terms = Terms(), progress: Progress | None = None) -> Verified:
    """Play every record of a bundle again and count what it is worth.

    Raises:
        Refused: It is not what it says, or not for this board.
    """
    spec = _spec(board)
    if bundle.manifest is None and not terms.hosted:
        raise Refused("no-bundle", "there is no manifest in it", fix="make it with `agentenvs leaderboard pack`")
    if bundle.manifest is not None:
        _check_manifest(bundle.manifest, bundle.submission.image, board, terms)
    records = [_record(data, number) for number, data in enumerate(bundle.records)]
    for number, record in enumerate(records):
        _check_header(record, number, board, terms)
    _check_plan(records, board)
    lines = None if bundle.manifest is None else _claims(bundle, bundle.manifest)
    episodes = _replayed(records, spec, board, terms, progress)
    root = merkle_root(bundle.records)
    if bundle.manifest is not None and lines is not None:
        _check_claims(bundle.manifest, lines, episodes, root, terms)
    return Verified(episodes, root, _player(bundle.manifest, spec), _told(bundle.manifest, lines))


def _spec(board: Board) -> EnvSpec:
    try:
        spec = registry.spec(board.env)
    except UserError as error:
        raise Refused("wrong-environment", f"{board.env} is not installed here", why=error.what) from error
    if spec.release != board.release or spec.digest != board.spec:
        raise Refused(
            "wrong-environment",
            f"the board is of {board.env} release {board.release}, here is {spec.release}",
            why="another release may play the same actions differently",
            fix=f"version {board.since or '?'} of its package was the first with that release: verify there",
        )
    return spec


def _check_manifest(made: Manifest, image: str | None, board: Board, terms: Terms) -> None:
    entry = made.envs[0]
    if len(made.envs) != 1 or entry.env_id != board.env:
        raise Refused("wrong-environment", f"the run is of {entry.env_id[:80]}", why=f"the board is of {board.env}")
    if entry.env_version != board.release or entry.spec_digest != board.spec:
        raise Refused(
            "wrong-environment",
            f"the run is of {board.env} release {entry.env_version[:40]}, the board of {board.release}",
            why="a new release is a new board",
            fix=f"play it with the release of this board (the package since {board.since or '?'}), or send it to the "
            "board of its own release",
        )
    if entry.scorer_hash not in (None, board.scoring) and not terms.regrade:
        raise Refused(
            "wrong-scoring",
            f"the run was scored by code {(entry.scorer_hash or '')[:12]}…, the board's is {board.scoring[:12]}…",
            why="a new scoring is a new board",
            fix=f"score it with the version of the suite the board was made with, not {made.suite.version[:40]}",
        )
    if board.image is not None and image != board.image and not terms.anchor:
        raise Refused(
            "wrong-image",
            f"its worlds ran in {image[:19]}…" if image else "it does not say in which image its worlds ran",
            why=f"the board takes {board.image}",
            fix="play it there",
        )
    if made.agent.privileged and not terms.anchor:
        raise _privileged("the manifest says so")
    if not made.complete or made.ended_by is not None:
        raise Refused(
            "unfinished",
            f"the run ended before all was played ({made.ended_by or 'episodes are missing'})",
            why="nobody may choose by what was seen which episodes count",
            fix="go on with it: agentenvs eval --resume FOLDER",
        )
    if made.exclusions:
        raise Refused("dropped", "the manifest excludes episodes", why="every started episode counts")


def _privileged(why: str) -> Refused:
    return Refused(
        "privileged", "its player was shown the hidden scenarios", why=why, fix="send a run of a player that is not"
    )


def _record(data: bytes, number: int) -> Record:
    try:
        records = parse_records(data, f"record {number}")
    except RecordError as error:
        raise Refused("edited", error.what, why=error.why, fix="send the records as they were written") from error
    if len(records) != 1:
        raise Refused("edited", f"record {number} holds {len(records)} records", why="each is a file of its own")
    if records[0].footer is None:
        raise Refused(
            "truncated",
            f"record {number} is cut off: it has no end",
            why="an episode that was left counts 0, and says so",
            fix="send the records as they were written",
        )
    return records[0]


def _check_header(record: Record, number: int, board: Board, terms: Terms) -> None:
    header = record.header
    if header.get("redacted"):
        raise Refused("redacted", f"record {number} is redacted", why="it cannot be played again")
    if header["privileged"] and not terms.anchor:
        raise _privileged(f"record {number} says so")
    if header["forked_from"] is not None:
        raise Refused("forked", f"record {number} began in the midst of another", why="each scenario has one beginning")
    if (header["env"], header["release"], header["spec"]) != (board.env, board.release, board.spec):
        raise Refused(
            "wrong-environment",
            f"record {number} is of {str(header['env'])[:80]} release {str(header['release'])[:40]}",
            why=f"the board is of {board.env} release {board.release}",
            fix=f"version {str(header['since'])[:20] or '?'} of its package was the first with that release",
        )
    if not terms.anchor and canonical(header["options"]) != board.options:
        raise Refused(
            "wrong-options",
            f"record {number} was played with {_differing(header['options'], boards.options_of(board))}",
            why="rows of a board have all been played alike",
            fix=f"play with the board's options: {board.options}",
        )
    if board.place(record.ref) is None:
        raise Refused(
            "other-scenarios",
            f"record {number} is of {record.ref.split[:60]}/{record.ref.index}",
            why=f"the board has {board.split}/{board.start} to {board.start + board.scenarios - 1}",
        )


def _differing(mine: Mapping[str, JSON], theirs: Mapping[str, JSON]) -> str:
    names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    return ", ".join(f"{name[:40]}={str(mine.get(name))[:40]}" for name in names[:3]) or "other options"


def _check_plan(records: Sequence[Record], board: Board) -> None:
    """Hold the episodes to the plan: each scenario as often as the board says, no more and no less."""
    digests = [record.digest for record in records]
    counts = Counter(record.ref.index for record in records)
    if over := [index for index, count in counts.items() if count > board.trials]:
        raise Refused(
            "repeated",
            f"scenario {board.split}/{min(over)} is there {counts[min(over)]} times",
            why=f"each counts {board.trials} time(s), and nobody may choose which",
        )
    short = [place for place in range(board.scenarios) if counts[board.start + place] < board.trials]
    if short:
        raise Refused(
            "dropped",
            f"{board.episodes - len(digests)} of {board.episodes} episodes are missing, the first of scenario "
            f"{board.split}/{board.start + short[0]}",
            why="every scenario of the board counts; an episode that was left counts 0",
            fix="send the whole run",
        )


def _claims(bundle: Bundle, made: Manifest) -> list[Line]:
    """Return the table of episodes, as the manifest names it."""
    if bundle.table is None:
        raise Refused("no-bundle", f"there is no {TABLE} in it", fix="make it with `agentenvs leaderboard pack`")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TABLE
        path.write_bytes(bundle.table)
        try:
            lines = read_lines(path)
            told = digest_of([line.form for line in lines])
        except (ValueError, ContractError) as error:
            raise Refused("form", f"{TABLE} is none", why=str(error)[:300]) from error
    if told != made.episode_table_digest:
        raise Refused("forged-score", f"{TABLE} is not the one the manifest names", why="one of them was edited")
    if [line.summary.number for line in lines] != list(range(len(bundle.records))):
        raise Refused("dropped", f"{TABLE} has other episodes than there are records")
    return lines


def _replayed(
    records: Sequence[Record], spec: EnvSpec, board: Board, terms: Terms, progress: Progress | None
) -> tuple[Played, ...]:
    env: Environment | None = None
    made_for, digests, episodes = "", {}, []
    try:
        for number, record in enumerate(records):
            wanted = canonical(record.header["options"])
            if env is None or wanted != made_for:
                if env is not None:
                    env.close()
                env, made_for = _env(spec, record, terms), wanted
            episodes.append(_played(record, number, env, board, terms))
            digests[episodes[-1].place] = record.header["scenario"] or env.scenario(*_address(record)).digest
            if progress is not None:
                progress(number + 1, len(records))
    finally:
        if env is not None:
            env.close()
    if not terms.anchor and panel_of([digests[place] for place in range(board.scenarios)]) != board.panel:
        raise Refused("other-scenarios", "the scenarios are not those of the board", why="their digests differ")
    return tuple(episodes)


def _address(record: Record) -> tuple[str, int]:
    return record.ref.split, record.ref.index


def _env(spec: EnvSpec, record: Record, terms: Terms) -> Environment:
    options = record.header["options"]
    if foreign := [option.name for option in spec.options if option.secret and option.name in options]:
        raise Refused("wrong-options", f"a record sets {foreign[0]!r}", why="it belongs to the machine that verifies")
    return registry.make_from(spec, **{**options, **terms.machine})


def _played(record: Record, number: int, env: Environment, board: Board, terms: Terms) -> Played:
    """Play one record again."""
    grading: dict[str, JSON] = {}
    try:
        for turn, name, recorded, found in comparisons(record, env):
            if recorded == found:
                continue
            if not (terms.regrade and name in _GRADING):
                raise _diverged(number, turn, name, recorded, found)
            grading[name] = found
    except ContractError as error:
        raise _diverged(number, env.turn + 1, "effects", "as recorded", error.what) from error
    except AgentEnvsError as error:
        if isinstance(error, Refused):
            raise
        raise Refused("diverges", f"record {number} cannot be played again: {error.what}", why=error.why) from error
    except Exception as error:
        raise _diverged(number, env.turn + 1, "failure", None, type(error).__name__) from error
    return _counted(record, env, board, anew=bool(grading))


def _diverged(number: int, turn: int, name: str, recorded: JSON, found: JSON) -> Refused:
    graded = name in _GRADING
    return Refused(
        "forged-score" if graded else "diverges",
        f"record {number} says {name} = {_short(recorded)} at turn {turn}, played again it is {_short(found)}",
        why="the score does not follow from the actions" if graded else "these actions do not lead there in this world",
        fix="send the records as they were written, with the version of the environment they were made with",
    )


def _short(value: JSON) -> str:
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _counted(record: Record, env: Environment, board: Board, *, anew: bool) -> Played:
    footer = record.footer or {}
    recorded, failed = record.verdict, bool(footer.get("failed"))
    if recorded is None:
        raise Refused("truncated", "a record has no verdict")
    verdict = recorded if failed or env.verdict is None else env.verdict
    ending = footer["ending"]
    labels = {} if record.header["observation"] is None else dict(env.labels())
    kind, difficulty = labels.get("kind"), labels.get("difficulty")
    success, reward = _worth(ending, verdict.success, verdict.reward)
    return Played(
        place=record.ref.index - board.start,
        record=record.digest,
        actions=_digest_of(record, record.turns),
        moves=_digest_of(record, _moves(record)),
        success=success,
        reward=reward,
        turns=len(record.turns),
        invalid=sum(not turn["valid"] for turn in record.turns),
        ending=ending,
        kind=None if kind is None else str(kind),
        difficulty=None if difficulty is None else str(difficulty),
        failed=failed or ending == "aborted",
        scored=_worth(ending, recorded.success, recorded.reward) if anew else None,
    )


def _worth(ending: str, success: bool, reward: float) -> tuple[bool, float]:
    """Return what counts: nothing for an episode that was left or failed."""
    return (False, min(reward, 0.0)) if ending in ("abandoned", "aborted") else (success, reward)


_FEWEST_MOVES = 3
"""With fewer, all that was done is looked at: where nothing but an answer changes the world, honest players agree."""


def _moves(record: Record) -> Sequence[Mapping[str, JSON]]:
    """Return the turns that changed the world; all turns where these are too few to tell players apart."""
    states = [record.header["state"], *(turn["state"] for turn in record.turns)]
    moved = [turn for turn, before in zip(record.turns, states, strict=False) if turn["state"] != before]
    return moved if len(moved) >= _FEWEST_MOVES else record.turns


def _digest_of(record: Record, turns: Sequence[Mapping[str, JSON]]) -> str:
    done: JSON = [[turn["action"], turn["effects"]] for turn in turns]
    return hashlib.sha256(canonical_bytes([record.header["scenario"], done])).hexdigest()


def _check_claims(made: Manifest, lines: Sequence[Line], episodes: Sequence[Played], root: str, terms: Terms) -> None:
    """Hold what the run says of itself against what was counted."""
    if root != made.merkle_root:
        raise Refused("edited", "the records are not those the manifest names", why="their Merkle root differs")
    for line, one in zip(lines, episodes, strict=True):
        said = line.summary
        success, reward = one.scored or (one.success, one.reward)
        claimed = (said.record, said.success, said.reward, said.ending, said.turns, said.invalid)
        if claimed != (one.record, success, reward, one.ending, one.turns, one.invalid):
            raise Refused(
                "forged-score",
                f"episode {said.number} is said to be success={said.success}, reward={said.reward:g}",
                why=f"its record, played again, gives success={success}, reward={reward:g}",
                fix="send the run as it was written",
            )
    won = sum((one.scored or (one.success, 0.0))[0] for one in episodes)
    if (made.results.episodes, made.results.successes) != (len(episodes), won) or (
        made.results.success_rate_millionths != round(won / len(episodes) * 1_000_000)
    ):
        raise Refused(
            "forged-score",
            f"the manifest says {made.results.successes} of {made.results.episodes} episodes were won",
            why=f"played again, {won} of {len(episodes)} are",
            fix="send the run as it was written",
        )


def _player(made: Manifest | None, spec: EnvSpec) -> str | None:
    return made.agent.name if made is not None and made.agent.name in spec.players else None


def _told(made: Manifest | None, lines: Sequence[Line] | None) -> dict[str, JSON]:
    if made is None or lines is None:
        return {}
    usage: dict[str, int | None] = {}
    for name in ("tokens_in", "tokens_out", "tokens_cached", "cost_microusd"):
        values = [line.summary.usage.get(name) for line in lines]
        known = all(type(value) is int and 0 <= value < 2**40 for value in values)
        usage[name] = sum(value for value in values if value is not None) if known else None
    return {
        "agent": made.agent.name,
        "model": made.model.id if made.model else None,
        "run": made.run_id[:60],
        "suite": made.suite.version[:40],
        "commit": made.suite.git_commit[:40] if made.suite.git_commit else None,
        "restarted": made.harness.restarted,
        "retried": made.harness.retried,
        "again": sum(line.summary.attempt > 1 for line in lines),
        "learned": made.harness.stream,
        **usage,
    }


__all__ = ["Played", "Terms", "Verified", "verify"]
