"""Locks on files between processes; gone with the process that holds them, however it ends."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt

    def lock(number: int) -> None:
        """Lock an open file for this process alone.

        Raises:
            OSError: Another process has it.
        """
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def lock(number: int) -> None:
        """Lock an open file for this process alone.

        Raises:
            OSError: Another process has it.
        """
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
