"""Verifies a bundle in a process of its own, which has nothing to lose: no secrets, and limits of time and memory.

The parent hands over the path of the bundle and the board as JSON, and reads lines of JSON back: how far it is, then
the result or the refusal. What a world prints goes nowhere. ``python -m agentenvs.leaderboard.clean`` is the child.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from agentenvs.core.errors import AgentEnvsError, ContractError
from agentenvs.leaderboard.boards import Board
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.refusals import Refused, from_json
from agentenvs.leaderboard.verifying import Progress, Terms, Verified, verify

_KEPT = ("PATH", "PYTHONPATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "XDG_CACHE_HOME", "VIRTUAL_ENV")
"""Variables the child is given; tokens, keys and secrets are none of its business."""

_OFTEN = 25
"""Episodes between two words about progress."""

_MOST_OUTPUT = 128 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a verification may use."""

    cpu_seconds: int = 300
    wall_seconds: float = 600.0
    memory_mb: int = 4096


BOUNDS = Bounds()


class Outcome(NamedTuple):
    """What came of a verification that found nothing wrong."""

    digest: str
    """SHA-256 of the bundle."""
    submission: Submission
    verified: Verified


def verified(
    path: Path,
    board: Board,
    terms: Terms = Terms(),  # noqa: B008 - frozen
    bounds: Bounds = BOUNDS,
    progress: Progress | None = None,
) -> Outcome:
    """Verify the bundle in a file.

    Raises:
        Refused: It is not what it says, or takes more than there is.
    """
    order = {"path": str(path.absolute()), "board": board.to_json(), "terms": asdict(terms), "bounds": asdict(bounds)}
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-m", "agentenvs.leaderboard.clean"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"},
        start_new_session=True,
    )
    timer = threading.Timer(bounds.wall_seconds, child.kill)
    timer.start()
    try:
        if child.stdin is None or child.stdout is None:
            raise ContractError("a process without pipes")
        with child.stdin as pipe:
            pipe.write(orjson.dumps(order))
        last = _listen(child.stdout, progress)
    except BrokenPipeError:
        last = {}
    finally:
        timer.cancel()
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    return _read(last, bounds)


def _listen(pipe: IO[bytes], progress: Progress | None) -> Mapping[str, Any]:
    for line in iter(lambda: pipe.readline(_MOST_OUTPUT), b""):
        said: dict[str, Any] = orjson.loads(line)
        if "done" not in said:
            return said
        if progress is not None:
            progress(said["done"], said["total"])
    return {}


def _read(said: Mapping[str, Any], bounds: Bounds) -> Outcome:
    if "verified" in said:
        submission = Submission.model_validate(said["submission"])
        return Outcome(said["digest"], submission, Verified.from_json(said["verified"]))
    refused = from_json(said.get("refused", {}))
    if refused is not None:
        raise refused
    raise Refused(
        "limits",
        "verification came to no end",
        why=f"{said['failed']}"
        if "failed" in said
        else f"it may take {bounds.cpu_seconds} CPU seconds, {bounds.wall_seconds:g} s and {bounds.memory_mb} MB",
        fix="send fewer or shorter episodes, or ask whoever runs the board for more",
    )


def _limit(bounds: Mapping[str, Any]) -> None:
    try:
        import resource
    except ImportError:  # Windows: the wall limit of the parent remains
        return
    memory, seconds = bounds["memory_mb"] << 20, bounds["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))


def main() -> None:
    """Do what is asked on stdin."""
    order = orjson.loads(sys.stdin.buffer.read())
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit(order["bounds"])

    def tell(said: Mapping[str, Any]) -> None:
        told.write(orjson.dumps(said) + b"\n")
        told.flush()

    tell(_answer(order, lambda done, total: None if done % _OFTEN else tell({"done": done, "total": total})))
    os._exit(0)  # threads of a world must not keep it


def _answer(order: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    from agentenvs.leaderboard import unpacking

    try:
        bundle = unpacking.read(Path(order["path"]).read_bytes())
        found = verify(bundle, Board.from_json(order["board"]), Terms(**order["terms"]), progress)
        return {
            "digest": bundle.digest,
            "submission": bundle.submission.model_dump(mode="json"),
            "verified": found.to_json(),
        }
    except Refused as refused:
        return {"refused": refused.to_json()}
    except MemoryError:
        return {"failed": "it ran out of memory"}
    except Exception as error:  # noqa: BLE001 - boundary of the process: a bundle may make a world fail in any way
        said = error.what if isinstance(error, AgentEnvsError) else type(error).__name__
        return {"failed": json.dumps(said)[:300]}


if __name__ == "__main__":
    main()
