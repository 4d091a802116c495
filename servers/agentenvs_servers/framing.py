"""The frames of a socket (RFC 6455): one that is plain is cut from what came by hand, everything else by the library.

A plain frame is a whole message of text, masked as it must be, that came in one piece while the socket is open and no
other message is in parts. Of every frame the head alone is read here, to know where the next one begins; so whatever is
not plain reaches the library to the byte, in order, and as soon as it is there: control frames, parts, closings, and
all that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

try:
    from websockets.speedups import apply_mask
except ImportError:  # where it could not be compiled
    from websockets.utils import apply_mask

_TEXT = 0x81
_FIN = 0x80
_CONTROL = 0x08
_MASKED = 0x80
_LONG, _LONGER = 126, 127
_MASK_BYTES = 4


class Cutter:
    """Cuts what comes into frames.

    Args:
        most: Bytes of a message that may be plain.
        library: Takes the bytes of what is not plain.
        is_open: Whether messages may still be taken.
    """

    def __init__(self, most: int, library: Callable[[bytes], None], is_open: Callable[[], bool]) -> None:
        self._most = most
        self._library = library
        self._is_open = is_open
        self.taker: Callable[[bytes], None] | None = None
        """Takes plain messages; without one nothing is plain."""
        self._head = b""
        """A head that is not all there."""
        self._owed = 0
        """Bytes of its frame that the library has not got yet."""
        self._is_parted = False
        """Whether a message is in parts, and its last one is yet to come."""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        if self._head:
            data, self._head = self._head + data, b""
        at = 0
        if self._owed:
            at = min(self._owed, len(data))
            self._owed -= at
            self._library(data[:at])
        while at < len(data):
            body, end = _measured(data, at)
            if not body:
                self._head = data[at:]
                return
            if self._takes(data, at, body, end):
                at = end
                continue
            self._note(data[at])
            part = data[at:end]
            self._owed = end - at - len(part)
            at += len(part)
            self._library(part)

    def _takes(self, data: bytes, at: int, body: int, end: int) -> bool:
        """Take a frame where it is plain."""
        if data[at] != _TEXT or self.taker is None or self._is_parted or end > len(data) or end - body > self._most:
            return False
        if data[at + 1] < _MASKED or not self._is_open():
            return False
        self.taker(apply_mask(data[body:end], data[body - _MASK_BYTES : body]))
        return True

    def _note(self, first: int) -> None:
        """Take note of whether a message is in parts now."""
        if not first & _CONTROL:
            self._is_parted = not first & _FIN


def _measured(data: bytes, at: int) -> tuple[int, int]:
    """Return where the body of a frame begins and where it ends; zeros where not even its head is all there."""
    if len(data) < at + 2:
        return 0, 0
    size = data[at + 1] & ~_MASKED
    body = at + 2
    if size >= _LONG:
        body += 2 if size == _LONG else 8
        size = int.from_bytes(data[at + 2 : body], "big")
    body += _MASK_BYTES if data[at + 1] & _MASKED else 0
    return (body, body + size) if len(data) >= body else (0, 0)


def framed(text: bytes) -> bytes:
    """Return the frame of a whole message of text, as servers send it."""
    size = len(text)
    if size < _LONG:
        return b"%c%c%b" % (_TEXT, size, text)
    if size < 2**16:
        return b"%c%c%b%b" % (_TEXT, _LONG, size.to_bytes(2, "big"), text)
    return b"%c%c%b%b" % (_TEXT, _LONGER, size.to_bytes(8, "big"), text)
