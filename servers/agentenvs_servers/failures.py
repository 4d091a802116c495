"""What a log may say of a failure: its kind and its place, never its words.

The words of an environment's exception may give a goal away, and those of the server's own may hold a session.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath

_MOST_FRAMES = 8
_MOST_CAUSES = 4


def told(error: BaseException) -> str:
    """Return kind and place of a failure and of its causes, innermost frame first."""
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < _MOST_CAUSES:
        frames = traceback.extract_tb(cause.__traceback__)[-_MOST_FRAMES:]
        places = [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
        said.append(f"{type(cause).__name__} at {' < '.join(places) or 'no place'}")
        cause = cause.__cause__
    return "; because of ".join(said)
