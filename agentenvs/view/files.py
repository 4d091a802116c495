"""Files of a run folder that may come from anybody: only regular ones inside it, only so much of each.

A link, a pipe, or a file too large to be shown is refused with a reason; nothing here
writes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 32 * 1024 * 1024
"""Of a file that is read whole."""


_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class UnreadableError(Exception):
    """A file cannot be shown; the message says why, for a page."""


def read(folder: Path, name: str, most: int = MOST_BYTES, *, cut: bool = False) -> bytes:
    """Return the bytes of a file inside a folder.

    Args:
        folder: The run.
        name: Relative path, made by the caller and not by a request.
        most: Bytes that are read.
        cut: Return the beginning of a larger file, instead of refusing it.

    Raises:
        UnreadableError: It is not there, no regular file, or larger.
    """
    path = folder
    try:
        for part in name.split("/"):
            path = path / part
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise UnreadableError(f"{name} is a link, and a run has none")
        handle = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise UnreadableError(f"{name} is missing") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{name} cannot be read: {error}") from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableError(f"{name} is no regular file")
        if found.st_size > most and not cut:
            raise UnreadableError(f"{name} has {found.st_size:,} bytes; up to {most:,} are shown")
        try:
            return file.read(most)
        except OSError as error:
            raise UnreadableError(f"{name} cannot be read: {error}") from error


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does: inode, size, time; None where there is no regular one."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for without end
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
