"""The index: what it finds is what adding up finds, and its bytes are the same everywhere."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenvs.core.errors import ContractError, DataError
from agentenvs.core.search import ENGLISH, FtsIndex, Hit, Index, Tokenizer, build, build_from_words, building, index
from agentenvs.core.search.building import lucene_length
from agentenvs.core.search.ranking import best
from agentenvs.core.streams import Stream

SMALL = [("a1", "The red door"), ("a2", "a red house, with a red DOOR"), ("a3", "Straße and café"), ("a4", "")]
DIGEST = "4bbd6b8a045170f3"


def drawn(count: int, words: int = 20, kinds: int = 400) -> list[tuple[str, str]]:
    """Return documents whose words are as unequally frequent as those of a language."""
    stream = Stream(bytes(32), "documents")
    texts = (
        " ".join(f"w{kinds // (1 + stream.below(kinds))}" for _ in range(stream.below(words))) for _ in range(count)
    )
    return [(f"d{number}", text) for number, text in enumerate(texts)]


LARGE = drawn(3000)
BUILT = build(LARGE)


def brute(made: Index, query: str, k: int) -> list[tuple[int, int]]:
    scores = made.scores(query)
    order = np.lexsort((np.arange(made.count), -scores))[:k]
    return [(int(number), int(scores[number])) for number in order if scores[number]]


def found(made: Index, query: str, k: int, offset: int = 0) -> list[tuple[int, int]]:
    return [(hit.number, hit.score) for hit in made.search(query, k, offset)]


def test_the_best_document_comes_first() -> None:
    made = build(SMALL)
    assert [hit.id for hit in made.search("red house")] == [made.id_of(1), made.id_of(0)] == ["a2", "a1"]
    assert made.search("CAFE\u0301 STRASSE") == made.search("café straße") != []


def test_scores_are_those_of_the_formula() -> None:
    made = build([("a", "x x y"), ("b", "y"), ("c", "z z z z")], k1=1.2, b=0.75)
    idf, length = 0.9808292530117262, 1.2 * (0.25 + 0.75 * 3 / (8 / 3))  # ln(1 + 2.5/1.5), |a| = 3 of 8/3 on average
    assert made.search("x") == [Hit(0, "a", round(4096 * idf * 2 / (2 + length)))]


@pytest.mark.parametrize("query", ["", "   ", "nothing here", "…", "\ud800", "'\"*():^"])
def test_what_names_no_term_finds_nothing(query: str) -> None:
    assert build(SMALL).search(query) == []


def test_no_documents_is_an_index_too() -> None:
    made = build([])
    assert (made.count, made.search("red")) == (0, [])


@pytest.mark.parametrize(("k", "offset"), [(0, 0), (-1, 0), (3, -1), (3, 99)])
def test_an_impossible_page_is_empty(k: int, offset: int) -> None:
    assert build(SMALL).search("red", k, offset) == []


def test_equal_scores_stand_in_the_order_of_numbers() -> None:
    made = build([(f"d{number}", "same words") for number in range(500)])
    assert [hit.number for hit in made.search("words same", 7)] == list(range(7))


def test_pages_join_to_the_whole() -> None:
    made = build(LARGE)
    whole = found(made, "w1 w2 w7", 40)
    assert [*found(made, "w1 w2 w7", 15), *found(made, "w1 w2 w7", 25, 15)] == whole


QUERIES = st.lists(st.sampled_from([f"w{number}" for number in (*range(1, 40), 50, 57, 66, 80, 100, 133, 200, 400)]))


@settings(max_examples=150, deadline=None)
@given(words=QUERIES, k=st.integers(1, 60))
def test_search_finds_what_adding_up_finds(words: list[str], k: int) -> None:
    assert found(BUILT, " ".join(words), k) == brute(BUILT, " ".join(words), k)


@pytest.mark.parametrize("k", [1, 2, 3, 300])
def test_few_documents_are_looked_up_in_a_long_list(k: int) -> None:
    texts = [
        f"filler{number} {'mid' if number % 12 == 0 else ''} {'rare' if number in (24, 31) else ''}"
        for number in range(3000)
    ]
    made = build([(f"d{number}", text) for number, text in enumerate(texts)])
    assert found(made, "rare mid", k) == brute(made, "rare mid", k)
    assert found(made, "rare mid", k)[0][0] == 24


def test_more_terms_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MOST_REMEMBERED", 3)
    made = build(LARGE)
    for number in range(1, 9):
        assert found(made, f"w{number} none{number}", 5) == brute(made, f"w{number}", 5)
    assert len(made._known) <= 3


WORD = st.sampled_from("abcdefgh")
TEXTS = st.lists(st.lists(WORD, max_size=12).map(" ".join), max_size=60)


@settings(max_examples=150, deadline=None)
@given(texts=TEXTS, query=st.lists(WORD, max_size=6).map(" ".join), k=st.integers(1, 8))
def test_search_finds_what_adding_up_finds_in_any_documents(texts: list[str], query: str, k: int) -> None:
    made = build([(str(number), text) for number, text in enumerate(texts)])
    assert found(made, query, k) == brute(made, query, k)


@settings(max_examples=100, deadline=None)
@given(scores=st.lists(st.integers(0, 6), max_size=400), most=st.integers(1, 30), times=st.integers(1, 300))
def test_the_best_of_many_are_those_of_a_full_sort(scores: list[int], most: int, times: int) -> None:
    many = np.array(scores * times, np.int32)
    order = np.lexsort((np.arange(many.size), -many))[:most]
    assert best(many, most).tolist() == [int(place) for place in order if many[place] > 0]


def test_a_search_leaves_nothing_behind() -> None:
    made = build(LARGE)
    before = found(made, "w3 w5", 10)
    for query in ("w1 w2 w400", "w57 w66", "w1 w1 w1", "w400 w1 w2 w3"):
        made.search(query, 5)
    assert found(made, "w3 w5", 10) == before
    assert not made._spare[0].any()


def test_threads_search_side_by_side() -> None:
    queries = [f"w1 w{number} w3" for number in (2, 4, 5, 7, 11, 36, 57, 400)] * 30
    alone = [found(BUILT, query, 10) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: found(BUILT, query, 10), queries)) == alone


def test_what_is_built_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build(LARGE).digest
    monkeypatch.setattr(building, "_WORDS_A_RUN", 700)
    assert build(iter(LARGE)).digest == whole


def test_what_is_built_from_numbers_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_WORDS_A_RUN", 700)
    tokenizer = Tokenizer(stop=("w1",))
    vocabulary: dict[str, int] = {}
    words, ends = [], []
    for _, text in LARGE:
        words += [vocabulary.setdefault(word, len(vocabulary)) for word in tokenizer.words(text)]
        ends.append(len(words))
    ids = [name for name, _ in LARGE]
    made = build_from_words(
        ids, np.array(words, np.int32), np.array(ends, np.int64), [*vocabulary, "unheld"], tokenizer=tokenizer
    )
    assert made.digest == build(LARGE, tokenizer=tokenizer).digest
    assert made.documents_with("w1").size == made.documents_with("unheld").size == 0
    assert found(made, "w2 unheld", 3) == found(made, "w2", 3)


def test_the_documents_of_a_term_are_listed() -> None:
    made = build(LARGE)
    for term in ("w1", "w400", "nothing"):
        assert made.documents_with(term).tolist() == [
            number for number, (_, text) in enumerate(LARGE) if term in text.split()
        ]


def test_a_field_may_count_nothing() -> None:
    made = build([("a", ("red", "unseen")), ("b", ("blue", ""))], weights=(1, 0))
    assert made.search("unseen red") == made.search("red") != []


def test_fields_count_as_often_as_their_weight() -> None:
    fields = build([("a", ("red", "blue red")), ("b", ("blue", "red red"))], weights=(3, 1))
    repeated = build([("a", "red red red blue red"), ("b", "blue blue blue red red")])
    assert fields.search("red") == repeated.search("red")
    assert [hit.id for hit in fields.search("red")] == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: build(SMALL, k1=-1),
        lambda: build(SMALL, b=1.5),
        lambda: build(SMALL, weights=(1, 2)),
        lambda: build(SMALL, weights=(-1,)),
        lambda: build(SMALL, lengths="some"),  # type: ignore[arg-type]
        lambda: build_from_words(["a"], np.zeros(0, np.int32), np.zeros(0, np.int64), []),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: object) -> None:
    with pytest.raises(ContractError):
        wrong()  # type: ignore[operator]


def test_too_many_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MOST_DOCUMENTS", 3)
    with pytest.raises(ContractError, match="more than 3"):
        build(SMALL)


def test_lengths_are_rounded_as_lucene_does() -> None:
    # From the table of SmallFloat.byte4ToInt: exact up to 39, then steps of 2, 4, 8, …
    assert [lucene_length(number) for number in (0, 23, 39, 40, 41, 42, 56, 59, 60, 120, 121, 1000)] == [
        0, 23, 39, 40, 40, 42, 56, 56, 60, 120, 120, 984,
    ]  # fmt: skip
    assert build(SMALL, lengths="lucene").digest != build(SMALL).digest


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int | None]] = []
    build(((f"d{number}", "x") for number in range(9000)), total=9000, progress=lambda *what: told.append(what))
    assert told == [("indexing", 4096, 9000), ("indexing", 8192, 9000), ("writing", 1, 1)]


def test_everything_that_decides_is_in_the_digest() -> None:
    digests = [
        build(SMALL).digest,
        build(SMALL[::-1]).digest,
        build(SMALL, k1=0.9).digest,
        build(SMALL, b=0.4).digest,
        build(SMALL, tokenizer=Tokenizer(stop=("with",))).digest,
        build(SMALL, tokenizer=ENGLISH).digest,
        build([("other", text) for _, text in SMALL]).digest,
    ]
    assert len(set(digests)) == len(digests)


def test_a_file_holds_the_same_index(tmp_path: Path) -> None:
    made = build(LARGE, tokenizer=ENGLISH)
    path = tmp_path / "index"
    made.save(path)
    opened = Index.open(path.rename(tmp_path / "moved"))
    opened.verify()
    assert opened.digest == made.digest
    assert [file.name for file in tmp_path.iterdir()] == ["moved"]
    for query in ("w1", "w2 w400", "w57 w3 w1"):
        assert opened.search(query) == made.search(query)


def test_an_index_is_shared_by_copies_and_opened_again_by_others(tmp_path: Path) -> None:
    made = build(SMALL)
    assert copy.deepcopy({"world": made})["world"] is copy.copy(made) is made
    assert pickle.loads(pickle.dumps(made)).search("red") == made.search("red")
    made.save(tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    assert len(pickle.dumps(opened)) < 300
    assert pickle.loads(pickle.dumps(opened)).search("red") == made.search("red")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: b"something else" + bytes(200), "no file of this suite"),
        (lambda data: data[:50], "no file of this suite"),
        (lambda data: data[:-3], "is damaged"),
        (lambda data: data[:-40] + b"?" + data[-39:], "is damaged"),
        (lambda data: data[:16] + b"\x09" + data[17:], "has format 9"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, harm: object, said: str) -> None:
    path = tmp_path / "index"
    build(SMALL).save(path)
    path.write_bytes(harm(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match=said):
        Index.open(path)


def test_a_changed_byte_is_found_when_all_are_read(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build(SMALL).save(path)
    data = bytearray(path.read_bytes())
    data[129] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        Index.open(path).verify()


def test_a_file_that_is_not_there_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        Index.open(tmp_path / "none")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    build(SMALL).save(tmp_path / "index")
    with pytest.raises(DataError, match="is no documents file"):
        index.Bundle.open(tmp_path / "index", "documents")


def test_the_engine_of_sqlite_answers_the_same_calls(tmp_path: Path) -> None:
    made = FtsIndex.build(SMALL)
    assert [hit.id for hit in made.search("red house")] == ["a2", "a1"]
    assert made.search("CAFE\u0301")[0].id == "a3"
    assert made.search('"*():^ NEAR') == made.search("") == []
    written = FtsIndex.build(SMALL, path=tmp_path / "fts")
    opened = FtsIndex.open(tmp_path / "fts")
    assert opened.search("red") == made.search("red")
    assert opened.digest == written.digest == made.digest != build(SMALL).digest
    assert copy.deepcopy(made) is made
    for one in (made, written, opened):
        one.close()


def test_what_is_no_index_of_sqlites_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fts").write_bytes(b"no database")
    with pytest.raises(DataError, match="no full-text index"):
        FtsIndex.open(tmp_path / "fts")


def test_bytes_are_the_same_everywhere() -> None:
    assert build(LARGE, tokenizer=ENGLISH, k1=0.9, b=0.4, lengths="lucene").digest.startswith(DIGEST)


def test_documents_that_come_in_another_order_make_the_same_index() -> None:
    texts = [(f"d{number}", f"red mug {'blue ' * (number % 3)}cup {number % 5}") for number in range(40)]
    order = [(17 * number + 3) % 40 for number in range(40)]
    moved = build([texts[at] for at in order], places=order)
    straight = build(texts)
    assert moved.digest == straight.digest
    assert [hit.number for hit in moved.search("red mug", 40)] == [hit.number for hit in straight.search("red mug", 40)]


@pytest.mark.parametrize("places", [[0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1]])
def test_places_that_are_no_order_are_refused(places: list[int]) -> None:
    with pytest.raises(ContractError, match="no order"):
        build([("a", "x"), ("b", "y"), ("c", "z")], places=places)
