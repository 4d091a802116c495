"""Every way in which a submission is refused: a stable code and a name each.

The codes are read by programs, the sentences by people. A reason is never given another meaning; a new one gets a new
code.
"""

from __future__ import annotations

from typing import Final

from agentenvs.core.errors import UserError

REASONS: Final = {
    # the file
    "oversize": ("LB101", "too large"),
    "no-bundle": ("LB102", "no bundle"),
    "zip-bomb": ("LB103", "unpacks to too much"),
    "nested": ("LB104", "archives in an archive"),
    "overlap": ("LB105", "entries that overlap or hide something"),
    "link": ("LB106", "a link, a folder or a device"),
    "path": ("LB107", "a path that leads elsewhere"),
    "duplicate-name": ("LB108", "two entries of one name"),
    "encrypted": ("LB109", "encrypted"),
    "compression": ("LB110", "an odd compression"),
    "stray": ("LB111", "a file that does not belong there"),
    "text": ("LB112", "characters that do not belong in a text"),
    "long-line": ("LB113", "a line that is too long"),
    # what it says
    "form": ("LB201", "a form that is none"),
    "unfinished": ("LB202", "a run that was not played to its end"),
    "forged-score": ("LB203", "a score its records do not have"),
    "edited": ("LB204", "edited records"),
    "truncated": ("LB205", "truncated records"),
    "redacted": ("LB206", "records that say too little"),
    "privileged": ("LB207", "a player that was shown the scenarios"),
    "forked": ("LB208", "episodes that began in the midst of others"),
    "dropped": ("LB209", "episodes that are missing"),
    "repeated": ("LB210", "episodes that are there twice"),
    "other-scenarios": ("LB211", "episodes of other scenarios"),
    "diverges": ("LB212", "records that do not happen again"),
    "limits": ("LB213", "more time or memory than verification has"),
    # what it was made with
    "wrong-environment": ("LB301", "another environment or version"),
    "wrong-scoring": ("LB302", "another scoring"),
    "wrong-options": ("LB303", "other options or budgets"),
    "wrong-image": ("LB304", "another image"),
    "not-replayable": ("LB305", "a world that cannot be played again"),
    # who sends it
    "copied": ("LB401", "the play of somebody else"),
    "resubmitted": ("LB402", "the same records under another name"),
    "attempts": ("LB403", "more attempts than a contestant has"),
    "not-yours": ("LB404", "in the name of somebody else"),
    "needs-receipt": ("LB405", "a sealed board without a receipt"),
    "old-receipt": ("LB406", "a receipt that was used before"),
    "wrong-receipt": ("LB407", "a receipt for something else"),
    # the board
    "no-board": ("LB501", "no such board"),
    "closed": ("LB502", "an old board"),
    "busy": ("LB503", "a board that has too much to do"),
}
"""Name, code and title of each reason."""

_BY_CODE: Final = {code: reason for reason, (code, _) in REASONS.items()}


class Refused(UserError):
    """A submission that a board does not take.

    Args:
        reason: Which of :data:`REASONS`.
        what: What was found, one sentence.
        why: Why that is refused.
        fix: What the contestant can do.
    """

    def __init__(self, reason: str, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.reason = reason
        self.code = REASONS[reason][0]

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (self.reason, self.what, self.why, self.fix))

    def to_json(self) -> dict[str, str]:
        """Return ``{code, reason, what, why, fix}``."""
        return {"reason": self.reason, **super().to_json()}


def _again(reason: str, what: str, why: str, fix: str) -> Refused:
    return Refused(reason, what, why=why, fix=fix)


def from_json(form: dict[str, str]) -> Refused | None:
    """Return the refusal that :meth:`Refused.to_json` wrote; None where the form is of another error."""
    reason = _BY_CODE.get(form.get("code", ""))
    if reason is None:
        return None
    return Refused(reason, form.get("what", ""), why=form.get("why", ""), fix=form.get("fix", ""))


def title(code: str) -> str:
    """Return the few words of a code; the code where it is unknown."""
    reason = _BY_CODE.get(code)
    return code if reason is None else REASONS[reason][1]
