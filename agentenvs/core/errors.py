"""Every error the suite raises on purpose, as one tree.

    AgentEnvsError
    ├── UserError                 somebody asked for something that cannot be; shown without a traceback
    │   ├── UnknownEnvError       AE101  no environment of that id
    │   ├── SplitError            AE102  no such split, or no such index in it
    │   ├── OptionError           AE103  an option the environment does not have, or a value it refuses
    │   ├── MissingExtraError     AE104  an optional package is needed
    │   ├── DataError             AE105  a file handed in cannot be used
    │   ├── PolicyError           AE106  a policy cannot be found or does not act like one
    │   ├── RecordError           AE107  an episode record is torn, edited or of another version
    │   ├── ConfigError           AE108  a command line or configuration that makes no sense
    │   └── ServiceError          AE109  something outside (a model endpoint, a server) cannot be reached
    ├── EpisodeError              the caller used an environment out of turn
    │   ├── EpisodeNotStarted     AE201  step, fork or snapshot before reset
    │   ├── EpisodeEnded          AE202  step after the end
    │   ├── CapabilityError       AE203  fork, snapshot or restore where the spec does not declare it
    │   └── SnapshotError         AE204  bytes that are no snapshot of this environment and version
    └── ContractError             AE301  an environment broke a promise of the contract (a bug of its author)

Each carries a stable ``code`` and three sentences: what happened, why, and what to do. A model's nonsense action is
none of these: it is a turn in the episode.
"""

from __future__ import annotations


class AgentEnvsError(Exception):
    """Base of the tree.

    Args:
        what: What happened, one sentence.
        why: The cause, one sentence; may be empty.
        fix: What the reader can do about it; may be empty.
    """

    code: str = "AE000"

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        parts = [f"{self.code} {self.what}"]
        if self.why:
            parts.append(f"why: {self.why}")
        if self.fix:
            parts.append(f"fix: {self.fix}")
        return "\n  ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default reduction; process hosts send errors over pipes.
        return (_rebuild, (type(self), self.what, self.why, self.fix))

    def to_json(self) -> dict[str, str]:
        """Return ``{code, what, why, fix}``."""
        return {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix}


def _rebuild(cls: type[AgentEnvsError], what: str, why: str, fix: str) -> AgentEnvsError:
    return cls(what, why=why, fix=fix)


class UserError(AgentEnvsError):
    """Somebody asked for something that cannot be. Shown without a traceback."""

    code = "AE100"


class UnknownEnvError(UserError):
    """No environment of that id is registered."""

    code = "AE101"


class SplitError(UserError):
    """No such split, or no such index in it."""

    code = "AE102"


class OptionError(UserError):
    """An option the environment does not have, or a value it refuses."""

    code = "AE103"


class MissingExtraError(UserError):
    """An optional package is needed for this feature."""

    code = "AE104"


class DataError(UserError):
    """A file handed in cannot be used."""

    code = "AE105"


class PolicyError(UserError):
    """A policy cannot be found or does not act like one."""

    code = "AE106"


class RecordError(UserError):
    """An episode record is torn, edited, or of another version."""

    code = "AE107"


class ConfigError(UserError):
    """A command line or a configuration that makes no sense."""

    code = "AE108"


class ServiceError(UserError):
    """Something outside the process cannot be reached or answers nonsense."""

    code = "AE109"


class EpisodeError(AgentEnvsError):
    """The caller used an environment out of turn."""

    code = "AE200"


class EpisodeNotStarted(EpisodeError):
    """Step, fork or snapshot was called before reset."""

    code = "AE201"


class EpisodeEnded(EpisodeError):
    """Step was called after the end of the episode."""

    code = "AE202"


class CapabilityError(EpisodeError):
    """Fork, snapshot or restore on an environment whose spec does not declare it."""

    code = "AE203"


class SnapshotError(EpisodeError):
    """Bytes that are no snapshot of this environment and version."""

    code = "AE204"


class ContractError(AgentEnvsError):
    """An environment broke a promise of the contract: a bug of its author."""

    code = "AE301"


def missing_extra(feature: str, package: str, extra: str) -> MissingExtraError:
    """Word the one message for a missing optional package."""
    return MissingExtraError(
        f"{feature} needs the package {package!r}, which is not installed",
        why="it is heavy, so it is not part of the base install",
        fix=f"pip install 'agentenvs[{extra}]'",
    )
