"""Words of strangers: what may stand in a name that others will read.

A name is shown beside those of others, so it must not hide, imitate markup, run backwards or be two things at once.
What is not taken is refused and never mended: whoever reads a page sees what was sent.
"""

from __future__ import annotations

import unicodedata

from agentenvs.leaderboard.refusals import Refused

NAME, VERSION, CONTACT, NOTES = 60, 60, 120, 2_000
"""Most characters of each."""

_MARKUP = frozenset('<>&"`\\')
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of Unicode: controls, formats (the bidirectional ones among them), surrogates, private, unassigned."""

_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Letters, marks and signs that show nothing, whatever their category says."""

_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Scripts that have letters in common, by how the names of their characters begin."""

_TWINS = str.maketrans(
    "\u0430\u0432\u0441\u0501\u0435\u0433\u04bb\u0456\u0458\u043a\u04cf"
    "\u043c\u043d\u043e\u0440\u051b\u0455\u0442\u0443\u0475\u051d\u0445"
    "\u03b1\u03b2\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c9\u03c7\u03b6"
    "01i\u0131",
    "abcderhljklmhopqstyvwxabehlkmnoptywxzolll",
)
"""Letters that are drawn like another one, small or large: of Cyrillic, of Greek, 0 like o, 1 and i like l."""

_MARKS = 2
"""Combining marks on one letter: more climb over the lines above."""


def check_text(text: str, field: str, most: int, *, lines: bool = False) -> str:
    """Return the text if it may be shown.

    Args:
        text: What was sent.
        field: Its name, for the message.
        most: Characters it may have.
        lines: Whether line ends are taken, and what is markup in a name.

    Raises:
        Refused: It is too long, hides something, or is not in NFC.
    """
    if len(text) > most:
        raise _refused(field, f"has {len(text):,} characters", f"at most {most:,}")
    if not unicodedata.is_normalized("NFC", text):
        raise _refused(field, "is not in Unicode's normal form C", "two spellings of one name would look alike")
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        if (category in _HIDDEN or char in _BLANK) and not (lines and char == "\n"):
            raise _refused(field, f"holds U+{ord(char):04X}", "a character that cannot be seen")
        if not lines and char in _MARKUP:
            raise _refused(field, f"holds {char!r}", "names hold no markup")
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > _MARKS:
            raise _refused(field, "heaps marks on a letter", f"at most {_MARKS}")
    return text


def check_name(text: str, field: str, most: int = NAME) -> str:
    """Return a name if it may be shown: not empty, no blanks at its ends or two in a row.

    Raises:
        Refused: See :func:`check_text`.
    """
    if not text or text != " ".join(text.split()):
        raise _refused(field, f"is {text[:20]!r}" if text else "is empty", "a name has letters, and single blanks")
    check_text(text, field, most)
    for word in text.split():
        if len(scripts := _scripts(word)) > 1:
            raise _refused(field, f"mixes {' and '.join(scripts)} letters in a word", "they cannot be told apart")
    return text


def _scripts(word: str) -> list[str]:
    names = [unicodedata.name(char, "") for char in word if char.isalpha()]
    return sorted({script for script in _SCRIPTS for name in names if name.startswith(f"{script} ")})


def key_of(name: str) -> str:
    """Return what two names have in common that a reader would take for one: width, case, blanks, signs, twins."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(filter(str.isalnum, plain)).translate(_TWINS) or plain


def _refused(field: str, what: str, why: str) -> Refused:
    return Refused("text", f"the {field} {what}", why=why, fix="letters, digits and plain signs, in NFC")
