"""The field's real files, read into a corpus with questions: a real collection behind the same tools and reward.

What is read, plain or gzipped:

* PhantomWiki: a folder with ``articles.json`` and ``questions.json``;
* HotpotQA and 2WikiMultihopQA: a JSON list of questions with ``context`` and ``supporting_facts``, as lists or as the
  hub's columns; with 2WikiMultihopQA's ``id_aliases.json`` beside it, other names of an answer are accepted too;
* MuSiQue: JSON lines with ``paragraphs``;
* a fixed collection, as BrowseComp-Plus and Search-R1 have it: ``corpus.jsonl`` (``id``, ``contents``, or ``title`` and
  ``text``) beside files of questions, JSON lines or BrowseComp's CSV (a question, its answer with its spellings, and
  the ids of its documents if known), or questions that bring their documents along, as BrowseComp-Plus decrypted. Rows
  with BrowseComp's ``canary`` are decrypted with it.

All articles of a file's questions make one corpus. Files are read as data: nothing in them is evaluated. What cannot be
read is named, with the number of its row, and nothing is left out in silence.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, TypeVar

from agentenvs.core.canon import JSON, clean_text
from agentenvs.core.errors import DataError
from agentenvs_scenarios.searchworld.answers import NONE, key
from agentenvs_scenarios.searchworld.corpus import Asked, Corpus, Gathering, required
from agentenvs_scenarios.searchworld.ladder import catalogue
from agentenvs_scenarios.searchworld.model import LONGEST, MOST_SPELLINGS

T = TypeVar("T")

_ARTICLES, _QUESTIONS, _DOCUMENTS = "articles.json", "questions.json", "corpus.jsonl"
_QUESTION_LINES: Final = "questions.jsonl"
_ALIASES: Final = "id_aliases.json"
_LISTS: Final = (".json", ".json.gz")
_LINES: Final = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz")
_ASKED: Final = ("question", "query", "problem")
_ANSWERED: Final = ("golden_answers", "answers", "answer", "target")
_POINTED: Final = ("supports", "supporting_ids", "gold_docs", "evidence_docs")
_HEAD: Final = 1 << 17
"""Bytes of a file that are looked at to see what it is; the first question is in them."""
_BROUGHT: Final = ("gold_docs", "evidence_docs", "negative_docs")
_FAULTS: Final = (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError)
"""What comes of rows that are not what they seem to be."""


class Source(NamedTuple):
    """A corpus that was found on disk."""

    name: str
    paths: tuple[Path, ...]
    read: Callable[[str, tuple[Path, ...]], Corpus]


def find_corpora(folder: Path) -> list[Source]:
    """Return the corpora of a folder, or of its subfolders, by name.

    Raises:
        DataError: There is none, or the folder cannot be read.
    """
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
        found = [source for path in (folder, *inside) for source in _sources(path)]
    except OSError as error:
        raise DataError(f"{folder} cannot be read", why=error.strerror or str(error)) from error
    required(bool(found), folder, "there is no corpus in it")
    names = [source.name for source in found]
    doubled = next((name for name in names if names.count(name) > 1), "")
    required(not doubled, folder, f"two corpora are called {doubled!r}")
    return found


def load(source: Source) -> Corpus:
    """Return a corpus.

    Raises:
        DataError: A file is not what it seems to be.
    """
    try:
        corpus = source.read(source.name, source.paths)
    except _FAULTS as error:
        raise _unusable(source.paths[-1], error) from error
    required(bool(corpus.questions), source.paths[-1], "there is no question in it")
    return corpus


def _unusable(path: Path, error: Exception, where: str = "") -> DataError:
    what = f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    fix = "is it a file of that data set? Test files without answers cannot be played"
    return DataError(f"{path} cannot be used", why=f"{where}{what}", fix=fix)


def _sources(folder: Path) -> list[Source]:
    articles, questions = _named(folder, _ARTICLES), _named(folder, _QUESTIONS)
    if articles and questions:
        return [Source(_name(folder, folder.name), (articles, questions), _phantom)]
    documents, aliases = _named(folder, _DOCUMENTS), _named(folder, _ALIASES)
    found = []
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith((*_LISTS, *_LINES))):
        read = None if path in (documents, aliases) else _reader(path, documents is not None)
        if read is not None:
            beside = documents if read is _collection else aliases
            stem = path.name.partition(".")[0]
            name = _name(folder, folder.name if stem == _QUESTION_LINES.partition(".")[0] else stem)
            found.append(Source(name, (beside, path) if beside else (path,), read))
    required(bool(found) or documents is None, documents, "there are no questions beside it")
    return found


def _name(folder: Path, name: str) -> str:
    """Return the name of a corpus: another than a generated split's, which many published files have."""
    return f"{folder.name}-{name}" if name in catalogue().splits else name


def _reader(path: Path, has_documents: bool) -> Callable[[str, tuple[Path, ...]], Corpus] | None:
    """Return how a file of questions is read, by how it begins; None for others, such as corpora and notes."""
    if path.name.removesuffix(".gz") == _QUESTION_LINES:
        return _collection
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return None
    if b'"question"' in head and (b'"context"' in head or b'"paragraphs"' in head):
        return _multihop
    asks = any(f'"{name}"'.encode() in head for name in _ASKED) or (
        ".csv" in path.name and head.partition(b"\n")[0].strip(b'\xef\xbb\xbf"').startswith(_CSV_HEADS)
    )
    brings = any(f'"{name}"'.encode() in head for name in _BROUGHT)
    return _collection if path.name.endswith(_LINES) and asks and (has_documents or brings) else None


_CSV_HEADS: Final = tuple(name.encode() for name in _ASKED)


def _named(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


# ---- files ---------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a file as text; its lines end at line feeds alone, since a text may hold other ends of lines.

    Raises:
        DataError: It cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as raw:
            yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read", why=str(error)) from error


def _json(path: Path) -> JSON:
    try:
        with _opened(path) as file:
            return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON", why=str(error)) from error


def _rows(path: Path) -> Iterator[Mapping[str, JSON]]:
    """Yield the objects of a JSON list, of JSON lines (as they are read) or of a CSV file."""
    with _opened(path) as file:
        if ".csv" in path.name:
            yield from _table(file)
            return
        begun = False
        for number, line in enumerate(file, start=1):
            if not begun and line.lstrip().startswith("["):
                yield from json.loads(line + file.read())
                return
            if line.strip():
                begun = True
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path} is no JSON lines", why=f"line {number}: {error}") from error


def _table(file: TextIO) -> Iterator[Mapping[str, JSON]]:
    for row in csv.DictReader(file, strict=True):
        if None in row or None in row.values():
            raise ValueError(f"a row has more or fewer fields than the first: {list(row.values())!r:.80}")
        yield row


def _each(path: Path, rows: Iterable[Mapping[str, JSON]], make: Callable[[Mapping[str, JSON]], T]) -> Iterator[T]:
    """Yield what is made of each row.

    Raises:
        DataError: A row is not what it seems to be; says which.
    """
    for number, row in enumerate(rows, start=1):
        try:
            if not isinstance(row, Mapping):
                raise TypeError(f"{row!r:.60} is no object")
            made = make(row)
        except _FAULTS as error:
            raise _unusable(path, error, f"row {number}: ") from error
        yield made


def _question(sentence: str, kind: str, hops: int, answers: Iterable[Iterable[str]], supports: Iterable[int]) -> Asked:
    """Return a question; answers that are the same are one, and one that says there is none is none.

    Raises:
        ValueError: It is empty or too long, has too many answers, or one that is empty.
    """
    found: dict[str, tuple[str, ...]] = {}
    for spellings in answers:
        known = tuple(dict.fromkeys(text for text in map(_clean, spellings) if text.strip()))
        if not known or len(known) > MOST_SPELLINGS:
            raise ValueError(f"an answer has {len(known)} spellings")
        found.setdefault(key(known[0]), known)
    if list(found) in [[word] for word in NONE]:
        found = {}
    if len(found) > MOST_SPELLINGS:
        raise ValueError(f"a question has {len(found)} answers, more than {MOST_SPELLINGS}")
    asked = _clean(sentence)
    if not 0 < len(asked.strip()) <= LONGEST:
        raise ValueError(f"a question has {len(asked)} characters, and the most are {LONGEST}")
    return Asked(asked, kind, hops, tuple(found.values()), tuple(sorted(supports)))


# ---- PhantomWiki ---------------------------------------------------------------------------------------------------


def _phantom(name: str, paths: tuple[Path, ...]) -> Corpus:
    articles = list(_each(paths[0], _json(paths[0]), lambda row: (_clean(row["title"]), _clean(row["article"]))))
    numbers = {title: number for number, (title, _) in reversed(list(enumerate(articles)))}
    asked = _each(paths[1], _json(paths[1]), lambda row: _phantom_question(row, numbers))
    return Corpus(name, articles, asked, comma=True)


def _phantom_question(row: Mapping[str, JSON], numbers: Mapping[str, int]) -> Asked:
    traces = row.get("solution_traces") or "[]"
    bindings = json.loads(traces) if isinstance(traces, str) else traces
    named = {numbers[value] for trace in bindings for value in trace.values() if value in numbers}
    kind = "count" if row.get("is_aggregation_question") else "chain"
    answers = [(str(answer),) for answer in row["answer"]]
    return _question(row["question"], kind, int(row.get("difficulty", 0)), answers, named)


# ---- HotpotQA, 2WikiMultihopQA, MuSiQue ----------------------------------------------------------------------------


def _multihop(name: str, paths: tuple[Path, ...]) -> Corpus:
    gathering = Gathering()
    aliases = dict(_each(paths[0], _rows(paths[0]), _aliases_of)) if len(paths) > 1 else {}

    def asked(row: Mapping[str, JSON]) -> Asked:
        return _musique(row, gathering) if "paragraphs" in row else _hotpot(row, gathering, aliases)

    questions = list(_each(paths[-1], _rows(paths[-1]), asked))
    return Corpus(name, gathering.articles, questions)


def _aliases_of(row: Mapping[str, JSON]) -> tuple[str, tuple[str, ...]]:
    """Return an entity of 2WikiMultihopQA with its other names, as its evaluation takes them."""
    return str(row["Q_id"]), (*map(_clean, row["aliases"]), *map(_clean, row.get("demonyms") or ()))


def _hotpot(row: Mapping[str, JSON], gathering: Gathering, aliases: Mapping[str, tuple[str, ...]]) -> Asked:
    context, facts = row["context"], row.get("supporting_facts") or []
    if isinstance(context, Mapping):
        context = list(zip(context["title"], context["sentences"], strict=True))
    if isinstance(facts, Mapping):
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    wanted = {title for title, _ in facts}
    supports = set()
    for item in context:
        title, sentences = (item["title"], item["sentences"]) if isinstance(item, Mapping) else item
        number = gathering.add(_clean(title), " ".join(_clean(sentence).strip() for sentence in sentences))
        if title in wanted:
            supports.add(number)
    spellings = (row["answer"], *aliases.get(str(row.get("answer_id")), ())[: MOST_SPELLINGS - 1])
    return _question(row["question"], str(row.get("type") or "bridge"), len(supports), [spellings], supports)


def _musique(row: Mapping[str, JSON], gathering: Gathering) -> Asked:
    supports = set()
    for paragraph in row["paragraphs"]:
        text = _first(paragraph, ("paragraph_text", "text"))
        number = gathering.add(_clean(paragraph["title"]), _clean(text))
        if paragraph.get("is_supporting"):
            supports.add(number)
    given = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    spellings = (*given, *(row.get("answer_aliases") or ()))
    head = str(row.get("id", "")).partition("hop")[0]
    hops = int(head) if head.isdigit() else len(supports)
    return _question(row["question"], "chain", hops, [spellings] if row.get("answerable", True) else [], supports)


# ---- fixed collections ---------------------------------------------------------------------------------------------


def _collection(name: str, paths: tuple[Path, ...]) -> Corpus:
    gathering = Gathering()
    if len(paths) > 1:
        for _ in _each(paths[0], _rows(paths[0]), lambda row: _document(row, gathering)):
            pass
    asked = list(_each(paths[-1], _rows(paths[-1]), lambda row: _asked(_plain(row), gathering)))
    return Corpus(name, gathering.articles, asked)


def _document(row: Mapping[str, JSON], gathering: Gathering) -> int:
    """Return the number of a document.

    Raises:
        ValueError: Another has its id.
    """
    name = str(_first(row, ("id", "docid", "_id")))
    text = _first(row, ("contents", "text"))
    title = row.get("title") or row.get("url") or ""
    if not title:
        title, _, text = text.partition("\n")
    number = gathering.add(_clean(title.strip().strip('"')), _clean(text.strip()), name)
    if gathering.named(name) != number:
        raise ValueError(f"two documents have the id {name!r:.80}")
    return number


def _asked(row: Mapping[str, JSON], gathering: Gathering) -> Asked:
    brought = [document for group in _BROUGHT for document in row.get(group) or () if isinstance(document, Mapping)]
    for document in brought:  # of one that is in the collection already, this may be an excerpt
        if gathering.named(str(_first(document, ("id", "docid", "_id")))) is None:
            _document(document, gathering)
    supports = {number for name in _pointed(row) if (number := gathering.named(name)) is not None}
    found = _first(row, _ANSWERED)
    spellings = [found] if isinstance(found, str) else list(map(str, found))
    kind = str(row.get("type") or row.get("data_source") or "open")
    return _question(_first(row, _ASKED), kind, len(supports), [spellings] if spellings else [], supports)


def _pointed(row: Mapping[str, JSON]) -> Iterable[str]:
    for group in _POINTED:
        for item in row.get(group) or ():
            yield str(_first(item, ("docid", "id", "_id"))) if isinstance(item, Mapping) else str(item)


def _plain(row: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a row of BrowseComp decrypted, with the canary that stands in it; others as they are."""
    canary = row.get("canary")
    if not isinstance(canary, str):
        return row
    hidden = {name for name in (*_ASKED, *_ANSWERED) if isinstance(row.get(name), str)}
    return {name: _decrypted(value, canary) if name in hidden else value for name, value in row.items()}


def _decrypted(text: str, password: str) -> str:
    data = base64.b64decode(text, validate=True)
    key = hashlib.sha256(password.encode()).digest()
    return bytes(byte ^ key[place % len(key)] for place, byte in enumerate(data)).decode()


def _first(row: Mapping[str, JSON], names: Iterable[str]) -> Any:
    """Return the first of some fields that a row has.

    Raises:
        KeyError: It has none.
    """
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise KeyError(" or ".join(names))


def _clean(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.60} is no text")
    return clean_text(text)
