"""The manifest of a run: who played what, with which code, and digests over everything that came of it.

The model is the schema: strict, frozen, nothing extra, no floats (scores are whole millionths), so that its canonical
JSON can be signed. What nothing fills yet (price table, submission, seed commitment, signatures) is null or empty,
never left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentenvs._version import __version__
from agentenvs.client.endpoint import address_class
from agentenvs.core.canon import JSON, canonical_bytes, digest, sha256
from agentenvs.core.errors import DataError
from agentenvs.core.spec import EnvSpec, SplitSpec

Sha256 = Field(pattern=r"^[0-9a-f]{64}$")


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Suite(_Model):
    """The code of the suite itself."""

    version: str
    git_commit: str | None
    dirty: bool | None
    """Whether the checkout had uncommitted changes."""
    wheel_sha256: str | None


class Budget(_Model):
    """One declared budget."""

    name: str
    amount: int


class EnvEntry(_Model):
    """An environment that was played."""

    env_id: str
    env_version: str
    spec_digest: str = Sha256
    generator_hash: str | None
    """SHA-256 over the sources and data that make its scenarios."""
    policy_doc_hash: str | None
    scorer_hash: str | None
    """SHA-256 over the source that judges its outcomes."""
    tool_schema_hash: str = Sha256
    split: str
    panel: str | None
    """Digest of the scenarios of a split loaded from files."""
    seed_commitment: str | None
    tasks: int
    trials: int
    budgets: list[Budget]
    options: str
    """Canonical JSON of the options."""


class UserEntry(_Model):
    """The simulated user, where there is one."""

    kind: Literal["rule", "llm"]
    package_hash: str
    persona_mix: str | None
    cassette_sha256: str | None


class AgentEntry(_Model):
    """The policy."""

    name: str
    version: str | None
    source: str | None
    source_hash: str | None
    lock_hash: str | None
    prompts_hash: str | None
    """Digest of the protocol: prompts, history, limit, parser, reward scale."""
    tools_modified: bool
    training_data: str | None
    privileged: bool


class ModelEntry(_Model):
    """The model, where the policy asked one."""

    provider: str
    id: str
    revision: str | None
    sampling: str
    """Canonical JSON of what was sent to sample with."""
    reasoning_effort: str | None
    seed: int | None
    base_url_class: Literal["public", "private", "loopback"]


class ServerEntry(_Model):
    """The server that played the worlds. Its address is nobody's business."""

    protocol: Literal["agentenvs/1"]
    tls: bool
    url_class: Literal["public", "private", "loopback"]


class HarnessEntry(_Model):
    """How the run was made."""

    version: str
    concurrency: int
    retries: int
    """Attempts after the first that a call of a model is given; an episode has none."""
    episode_milliseconds: int | None
    """Wall limit of an episode."""
    stream: bool
    order: list[int] | None
    """Declared order of a stream."""
    reward_visible: Literal["none", "true", "flipped", "random"]
    server: ServerEntry | None = None
    """None where the worlds were in the process of the harness."""
    restarted: int = 0
    """Attempts that were cut off with the run's process and count for nothing: their episodes are begun again."""
    retried: int = 0
    """Episodes that were played again because an attempt had failed by a world, a server or a model's endpoint."""


class MachineEntry(_Model):
    """Where it ran."""

    os: str
    python: str
    cpu: str


class Results(_Model):
    """The summary in whole numbers; rates in millionths."""

    episodes: int
    successes: int
    success_rate_millionths: int
    mean_return_millionths: int
    invalid_rate_millionths: int


class Signature(_Model):
    """A signature over the canonical manifest without its signatures."""

    key_id: str
    alg: Literal["Ed25519"]
    sig: str


class Manifest(_Model):
    """Everything that must be known of a run to judge it."""

    schema_version: Literal[1] = 1
    run_id: str
    submission_id: str | None
    created: str
    suite: Suite
    envs: list[EnvEntry]
    user: UserEntry | None
    agent: AgentEntry
    model: ModelEntry | None
    harness: HarnessEntry
    machine: MachineEntry
    price_table: str | None
    results: Results
    complete: bool
    """Whether every planned episode was played."""
    ended_by: Literal["interrupt", "tokens", "seconds", "dollars"] | None = None
    """What ended it before that, where something did."""
    episode_table_digest: str = Sha256
    merkle_root: str = Sha256
    signatures: list[Signature]
    exclusions: list[str]
    """Must be empty for a ranked run."""

    def to_bytes(self) -> bytes:
        """Return the canonical JSON."""
        return canonical_bytes(self.model_dump(mode="json")) + b"\n"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and hold it to the schema.

    Raises:
        DataError: There is no such file, or it is no manifest; the message names the field.
    """
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        begun = (path.parent / "episodes.jsonl").exists()
        again = f"its run did not come to an end; go on with it: agentenvs eval --resume {path.parent}"
        fix = again if begun else "give the folder of a run"
        raise DataError(f"there is no manifest at {path}", why=str(error), fix=fix) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise DataError(
            f"{path} is no manifest of a run",
            why=f"{where}: {first['msg']}",
            fix=f"take it from where it was made, or have it written again: agentenvs eval --resume {path.parent}",
        ) from error


def uuid7() -> str:
    """Return a time-ordered UUID (RFC 9562, version 7)."""
    value = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Return the root of the Merkle tree over byte strings (RFC 6962, section 2.1)."""
    return _root([hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]).hex()


def _root(nodes: Sequence[bytes]) -> bytes:
    if not nodes:
        return hashlib.sha256(b"").digest()
    if len(nodes) == 1:
        return nodes[0]
    split = 1 << ((len(nodes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + _root(nodes[:split]) + _root(nodes[split:])).digest()


def suite_entry() -> Suite:
    """Return what can be told of the code that runs."""
    root = Path(__file__).resolve().parents[2]
    commit = _git(root, "rev-parse", "HEAD") if (root / ".git").exists() else None
    status = _git(root, "status", "--porcelain", "--untracked-files=no") if commit else None
    return Suite(
        version=__version__,
        git_commit=commit,
        dirty=None if status is None else bool(status),
        wheel_sha256=_wheel_sha256(),
    )


def env_entry(
    spec: EnvSpec,
    split: SplitSpec,
    tasks: int,
    options: dict[str, JSON],
    budgets: dict[str, int],
    *,
    trials: int = 1,
    here: bool = True,
) -> EnvEntry:
    """Return the entry of an environment.

    Args:
        spec: What it says of itself.
        split: The split that was played.
        tasks: How many of its scenarios.
        options: Those that belong to the episodes.
        budgets: What an episode starts with.
        trials: How often each is played.
        here: Whether it ran in this process: what makes and judges a server's worlds cannot be told from here.
    """
    return EnvEntry(
        env_id=spec.id,
        env_version=spec.release,
        spec_digest=spec.digest,
        generator_hash=_source_hash(f"agentenvs_scenarios.{spec.slug}", "*") if here else None,
        policy_doc_hash=None,
        scorer_hash=(_source_hash("agentenvs_scoring", f"{spec.slug}.py") or _guest_hash(spec)) if here else None,
        tool_schema_hash=digest(spec.to_json()["tools"]),
        split=split.name,
        panel=split.panel,
        seed_commitment=None,
        tasks=tasks,
        trials=trials,
        budgets=[Budget(name=name, amount=amount) for name, amount in sorted(budgets.items())],
        options=canonical_bytes(options).decode(),
    )


def server_entry(url: str) -> ServerEntry:
    """Return what may be told of a server."""
    parsed = httpx.URL(url)
    return ServerEntry(protocol="agentenvs/1", tls=parsed.scheme == "https", url_class=address_class(parsed.host))


def machine_entry() -> MachineEntry:
    """Return where this runs."""
    return MachineEntry(
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cpu=f"{platform.machine()} x {os.cpu_count() or 1}",
    )


def results(summary: dict[str, JSON]) -> Results:
    """Return the summary's main numbers without floats."""
    return Results(
        episodes=summary["episodes"],
        successes=summary["successes"],
        success_rate_millionths=round(summary["success_rate"] * 1_000_000),
        mean_return_millionths=round(summary["mean_return"] * 1_000_000),
        invalid_rate_millionths=round(summary["invalid_rate"] * 1_000_000),
    )


def _git(root: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
        [git, "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _wheel_sha256() -> str | None:
    """Return the SHA-256 of the wheel this was installed from, where the installer noted it (PEP 610)."""
    try:
        noted = json.loads(distribution("agentenvs").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    found = noted.get("archive_info", {}).get("hashes", {}).get("sha256")
    return found if isinstance(found, str) else None


def _guest_hash(spec: EnvSpec) -> str | None:
    """Return the SHA-256 of the file in which a world from elsewhere stands, with its score; None where it has none."""
    file = getattr(sys.modules.get(spec.entry_point.partition(":")[0]), "__file__", None)
    return sha256(Path(file).read_bytes()) if file else None


def _source_hash(package: str, pattern: str) -> str | None:
    """Return the SHA-256 over the files of a package that match, folders below included; None where there are none."""
    try:
        folder = Path(str(files(package)))
    except ModuleNotFoundError:
        return None
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob(pattern) if path.is_file())
    named = [(name, sha256((folder / name).read_bytes())) for name in found if "__pycache__" not in name]
    return digest(named) if named else None
