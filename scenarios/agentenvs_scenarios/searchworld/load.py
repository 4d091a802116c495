"""The field's real files, read into a corpus with questions: a real collection behind the same tools and reward.

What is read, plain or gzipped:

* PhantomWiki: a folder with ``articles.json`` and ``questions.json``;
* HotpotQA and 2WikiMultihopQA: a JSON list of questions with ``context`` and ``supporting_facts``, as lists or as the
  hub's columns;
* MuSiQue: JSON lines with ``paragraphs``;
* a fixed collection, as BrowseComp-Plus and Search-R1 have it: ``corpus.jsonl`` (``id``, ``contents``, or ``title`` and
  ``text``) beside ``questions.jsonl`` (a question, its answer or answers, and the ids of its documents if known), or
  questions that bring their documents along; encrypted rows of BrowseComp are read with the canary beside them.

All articles of a file's questions make one corpus. Files are read as data: nothing in them is evaluated.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentenvs.core.canon import JSON, clean_text
from agentenvs.core.errors import DataError
from agentenvs_scenarios.searchworld.corpus import Asked, Corpus, Gathering, required

_ARTICLES, _QUESTIONS, _DOCUMENTS = "articles.json", "questions.json", "corpus.jsonl"
_QUESTION_LINES: Final = "questions.jsonl"
_ENDINGS: Final = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_ASKED: Final = ("question", "query", "problem")
_ANSWERED: Final = ("golden_answers", "answers", "answer", "target")
_POINTED: Final = ("supports", "supporting_ids", "gold_docs", "evidence_docs")
_HEAD: Final = 1 << 17
"""Bytes of a file that are looked at to see what it is; the first question is in them."""
_BROUGHT: Final = ("gold_docs", "evidence_docs", "negative_docs")


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
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{source.paths[-1]} cannot be used", why=why, fix="is it a file of that data set?") from error
    required(bool(corpus.questions), source.paths[-1], "there is no question in it")
    return corpus


def _sources(folder: Path) -> list[Source]:
    articles, questions = _named(folder, _ARTICLES), _named(folder, _QUESTIONS)
    if articles and questions:
        return [Source(folder.name, (articles, questions), _phantom)]
    documents, lines = _named(folder, _DOCUMENTS), _named(folder, _QUESTION_LINES)
    if lines:
        return [Source(folder.name, (documents, lines) if documents else (lines,), _collection)]
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith(_ENDINGS))
    return [Source(path.name.partition(".")[0], (path,), _multihop) for path in files if _asks(path)]


def _asks(path: Path) -> bool:
    """Return whether a file begins like one of questions with their paragraphs; corpora and notes lie beside them."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False
    return b'"question"' in head and (b'"context"' in head or b'"paragraphs"' in head)


def _named(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


# ---- files ---------------------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read", why=str(error)) from error


def _json(path: Path) -> JSON:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON", why=str(error)) from error


def _rows(path: Path) -> Iterator[Mapping[str, JSON]]:
    """Yield the objects of a JSON list or of JSON lines."""
    text = _text(path)
    if text.lstrip().startswith("["):
        yield from json.loads(text)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path} is no JSON lines", why=f"line {number}: {error}") from error


# ---- PhantomWiki ---------------------------------------------------------------------------------------------------


def _phantom(name: str, paths: tuple[Path, ...]) -> Corpus:
    articles = [(_clean(row["title"]), _clean(row["article"])) for row in _json(paths[0])]
    numbers = {title: number for number, (title, _) in enumerate(articles)}
    asked = [_phantom_question(row, numbers) for row in _json(paths[1])]
    return Corpus(name, articles, asked, comma=True)


def _phantom_question(row: Mapping[str, JSON], numbers: Mapping[str, int]) -> Asked:
    traces = row.get("solution_traces") or "[]"
    bindings = json.loads(traces) if isinstance(traces, str) else traces
    named = {numbers[value] for trace in bindings for value in trace.values() if value in numbers}
    kind = "count" if row.get("is_aggregation_question") else "chain"
    answers = tuple((_clean(str(answer)),) for answer in row["answer"])
    return Asked(_clean(row["question"]), kind, int(row.get("difficulty", 0)), answers, tuple(sorted(named)))


# ---- HotpotQA, 2WikiMultihopQA, MuSiQue ----------------------------------------------------------------------------


def _multihop(name: str, paths: tuple[Path, ...]) -> Corpus:
    gathering, asked = Gathering(), []
    for row in _rows(paths[0]):
        asked.append(_musique(row, gathering) if "paragraphs" in row else _hotpot(row, gathering))
    return Corpus(name, gathering.articles, asked)


def _hotpot(row: Mapping[str, JSON], gathering: Gathering) -> Asked:
    context, facts = row["context"], row.get("supporting_facts") or []
    if isinstance(context, Mapping):
        context = list(zip(context["title"], context["sentences"], strict=True))
    if isinstance(facts, Mapping):
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    wanted = {title for title, _ in facts}
    supports = set()
    for title, sentences in context:
        number = gathering.add(_clean(title), " ".join(_clean(sentence).strip() for sentence in sentences))
        if title in wanted:
            supports.add(number)
    kind = str(row.get("type") or "bridge")
    return Asked(_clean(row["question"]), kind, len(supports), ((_clean(row["answer"]),),), tuple(sorted(supports)))


def _musique(row: Mapping[str, JSON], gathering: Gathering) -> Asked:
    supports = set()
    for paragraph in row["paragraphs"]:
        text = _first(paragraph, ("paragraph_text", "text"))
        number = gathering.add(_clean(paragraph["title"]), _clean(text))
        if paragraph.get("is_supporting"):
            supports.add(number)
    given = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    spellings = tuple(dict.fromkeys(map(_clean, (*given, *(row.get("answer_aliases") or ())))))
    answers = (spellings,) if row.get("answerable", True) else ()
    head = str(row.get("id", "")).partition("hop")[0]
    hops = int(head) if head.isdigit() else len(supports)
    return Asked(_clean(row["question"]), "chain", hops, answers, tuple(sorted(supports)))


# ---- fixed collections ---------------------------------------------------------------------------------------------


def _collection(name: str, paths: tuple[Path, ...]) -> Corpus:
    gathering = Gathering()
    if len(paths) > 1:
        for row in _rows(paths[0]):
            _document(row, gathering)
    asked = [_asked(_plain(row), gathering) for row in _rows(paths[-1])]
    return Corpus(name, gathering.articles, asked)


def _document(row: Mapping[str, JSON], gathering: Gathering) -> int:
    text = row.get("contents", row.get("text", ""))
    title = row.get("title") or row.get("url") or ""
    if not title:
        title, _, text = text.partition("\n")
    return gathering.add(
        _clean(title.strip().strip('"')), _clean(text.strip()), str(_first(row, ("id", "docid", "_id")))
    )


def _asked(row: Mapping[str, JSON], gathering: Gathering) -> Asked:
    for group in _BROUGHT:
        for document in row.get(group) or ():
            if isinstance(document, Mapping):
                _document(document, gathering)
    supports = {number for name in _pointed(row) if (number := gathering.named(name)) is not None}
    found = _first(row, _ANSWERED)
    texts = [found] if isinstance(found, str) else list(found)
    spellings = tuple(dict.fromkeys(_clean(str(text)) for text in texts))
    kind = str(row.get("type") or row.get("data_source") or "open")
    answers = (spellings,) if spellings else ()
    return Asked(_clean(str(_first(row, _ASKED))), kind, len(supports), answers, tuple(sorted(supports)))


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
