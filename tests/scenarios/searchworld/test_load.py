"""The field's files become corpora: PhantomWiki, HotpotQA, 2WikiMultihopQA, MuSiQue and fixed collections."""

import base64
import gzip
import hashlib
import json

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.searchworld.load import find_corpora, load

HOTPOT = {
    "_id": "h1",
    "question": "Which is older, Red or Blue?",
    "answer": "Red",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Red", 0], ["Blue", 1]],
    "context": [["Red", ["Red is old.", " Very old."]], ["Green", ["Green is green."]], ["Blue", ["Blue is new."]]],
}
HUB = {
    **HOTPOT,
    "supporting_facts": {"title": ["Red"], "sent_id": [0]},
    "context": {"title": ["Red", "Pink"], "sentences": [["Red is old.", " Very old."], ["Pink."]]},
}
WIKI2 = {**HOTPOT, "type": "compositional", "evidences": [["Red", "older than", "Blue"]], "answer_id": "Q1"}
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "Who?",
    "answer": "Ann",
    "answer_aliases": ["Anna", "Ann"],
    "answerable": True,
    "question_decomposition": [],
    "paragraphs": [
        {"idx": 0, "title": "A", "paragraph_text": "A text.", "is_supporting": True},
        {"idx": 1, "title": "A", "paragraph_text": "Another text.", "is_supporting": False},
    ],
}


def corpus(tmp_path, name="", **files):
    for file, content in files.items():
        path = tmp_path / file.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sources = {source.name: source for source in find_corpora(tmp_path)}
    return load(sources[name] if name else next(iter(sources.values())))


def lines(*rows):
    return "\n".join(map(json.dumps, rows))


def test_hotpotqa_in_both_layouts(tmp_path):
    made = corpus(tmp_path, hotpot_dev_distractor_v1__json=json.dumps([HOTPOT, HUB]))
    assert made.articles == (
        ("Red", "Red is old. Very old."),
        ("Green", "Green is green."),
        ("Blue", "Blue is new."),
        ("Pink", "Pink."),
    )
    first, second = made.questions
    assert (first.kind, first.hops, first.answers, first.supports) == ("comparison", 2, (("Red",),), (0, 2))
    assert second.supports == (0,)
    assert (made.name, made.comma) == ("hotpot_dev_distractor_v1", False)


def test_2wikimultihopqa(tmp_path):
    aliases = lines(
        {"Q_id": "Q1", "aliases": ["Rossa", "Red"], "demonyms": ["Reddish"]},
        {"Q_id": "Q2", "aliases": [], "demonyms": []},
    )
    rows = json.dumps([WIKI2, {**WIKI2, "answer_id": None}])
    files = {"dev__json": rows, "dev_corpus__json": '[{"title": "Red", "text": "Red."}]', "id_aliases__json": aliases}
    made = corpus(tmp_path, **files)
    assert made.name == f"{tmp_path.name}-dev", "dev is a generated split's name"
    assert made.questions[0].kind == "compositional"
    assert [asked.answers for asked in made.questions] == [(("Red", "Rossa", "Reddish"),), (("Red",),)]


def test_musique(tmp_path):
    unanswerable = {**MUSIQUE, "id": "2hop__x", "answerable": False}
    made = corpus(tmp_path, musique_full__jsonl=lines(MUSIQUE, unanswerable))
    assert made.articles == (("A", "A text."), ("A", "Another text."))
    assert made.questions[0].answers == (("Ann", "Anna"),)
    assert [asked.hops for asked in made.questions] == [3, 2]
    assert made.questions[0].supports == (0,)
    assert made.questions[1].answers == ()
    assert made.find("A") == 0


def test_a_fixed_collection(tmp_path):
    documents = lines(
        {"id": "d0", "contents": '"Red"\nRed is old.'},
        {"docid": 1, "title": "Blue", "text": "Blue is new.", "url": "u"},
        {"_id": "d2", "url": "http://green", "text": "Green."},
    )
    asked = lines(
        {"query_id": 1, "query": "Which is old?", "answer": "Red", "gold_docs": ["d0", "d9"]},
        {"question": "Who?", "golden_answers": ["Ann", "Anna"], "data_source": "nq", "supports": ["1"]},
    )
    made = corpus(tmp_path, corpus__jsonl=documents, questions__jsonl=asked)
    assert made.articles == (("Red", "Red is old."), ("Blue", "Blue is new."), ("http://green", "Green."))
    assert [row.supports for row in made.questions] == [(0,), (1,)]
    assert made.questions[1].answers == (("Ann", "Anna"),)
    assert [row.kind for row in made.questions] == ["open", "nq"]


def test_questions_that_bring_their_documents(tmp_path):
    row = {
        "query": "Which is old?",
        "answer": "Red",
        "gold_docs": [{"docid": "a", "text": "Red\nis old."}],
        "evidence_docs": [{"docid": "a", "text": "Red\nis old."}, {"docid": "b", "text": "Blue\nis new."}],
        "negative_docs": [{"docid": "c", "text": "Green\nis green."}],
    }
    made = corpus(tmp_path, questions__jsonl=lines(row))
    assert [title for title, _ in made.articles] == ["Red", "Blue", "Green"]
    assert made.questions[0].supports == (0, 1)


def hidden(text, canary=b"canary words"):
    key = hashlib.sha256(canary).digest()
    return base64.b64encode(bytes(byte ^ key[place % 32] for place, byte in enumerate(text.encode()))).decode()


def test_browsecomps_file_as_it_is_published(tmp_path):
    question = 'Which one, "old" or new,\nis older than thirty-two characters?'
    table = "problem,answer,problem_topic,canary\r\n"
    table += f"{hidden(question)},{hidden('Red; or so')},Art,canary words\r\n"
    for mark in ("", "\ufeff"):
        documents = lines({"docid": "a", "url": "http://red", "text": "Red."})
        made = corpus(tmp_path, corpus__jsonl=documents, browse_comp_test_set__csv=mark + table)
        assert made.name == "browse_comp_test_set"
        assert made.questions[0].sentence == question
        assert made.questions[0].answers == (("Red; or so",),)


def test_several_files_of_questions_beside_a_collection(tmp_path):
    row = {"id": "q", "question": "Who?", "golden_answers": ["Ann"], "metadata": {}}
    files = {"test__jsonl": lines(row), "nq__jsonl": lines(row, row), "notes__jsonl": lines({"note": 1})}
    corpus(tmp_path, corpus__jsonl=lines({"id": "0", "contents": "Ann\nAnn."}), **files)
    sources = {source.name: len(load(source).questions) for source in find_corpora(tmp_path)}
    assert sources == {"nq": 2, f"{tmp_path.name}-test": 1}


def test_browsecomp_plus_decrypted(tmp_path):
    brought = {"docid": "7", "url": "http://red", "text": "Red\u2028is\x85old."}
    row = {"query_id": "1", "query": "Who?", "answer": "Red", "gold_docs": [brought], "negative_docs": []}
    rows = json.dumps(row, ensure_ascii=False)
    alone = corpus(tmp_path, browsecomp_plus_decrypted__jsonl=rows)
    assert alone.articles == (("http://red", "Red\u2028is\x85old."),)
    documents = lines({"docid": "7", "url": "http://red", "text": "Red is old, and more."})
    beside = corpus(tmp_path, corpus__jsonl=documents, browsecomp_plus_decrypted__jsonl=rows)
    assert beside.articles == (("http://red", "Red is old, and more."),)
    assert beside.questions[0].supports == (0,)


@pytest.mark.parametrize(
    ("answer", "aliases", "wanted"),
    [
        ("None", [], ()),
        ("The The", ["the the"], (("The The", "the the"),)),
        ("!!!", [""], (("!!!",),)),
        ("no", [], (("no",),)),
    ],
)
def test_answers_that_are_odd_can_be_given(tmp_path, answer, aliases, wanted):
    made = corpus(tmp_path, x__jsonl=lines({**MUSIQUE, "answer": answer, "answer_aliases": aliases}))
    assert made.questions[0].answers == wanted


def test_encrypted_rows_are_read_with_the_canary_beside_them(tmp_path):
    row = {
        "problem": hidden("Which of these is the oldest of them all?"),
        "answer": hidden("Red"),
        "canary": "canary words",
    }
    made = corpus(tmp_path, corpus__jsonl=lines({"id": "a", "contents": "Red\nold"}), questions__jsonl=lines(row))
    assert made.questions[0].sentence == "Which of these is the oldest of them all?"
    assert made.questions[0].answers == (("Red",),)


def test_phantomwiki_as_it_is_handed(shared_data):
    folder = shared_data / "searchworld"
    (source,) = find_corpora(folder)
    made = load(source)
    assert (made.name, len(made), len(made.questions), made.comma) == ("phantom_wiki_n50_d10", 50, 200, True)
    asked = made.questions[0]
    assert asked.sentence.startswith("Who is the parent of the friend of the great-grandmother of the person")
    assert len(asked.answers) == 8
    assert "Dominique Smock" in [made.title(number) for number in asked.supports]
    assert made.text(0).startswith("# Aida Wang")
    assert sum(asked.kind == "count" for asked in made.questions) == 70
    assert load(source).panel == made.panel


def test_gzipped_files_and_folders_of_corpora(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        data = lines({**MUSIQUE, "question": name}).encode()
        (tmp_path / name / f"{name}.jsonl.gz").write_bytes(gzip.compress(data))
    assert [source.name for source in find_corpora(tmp_path)] == ["one", "two"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "there is no corpus in it"),
        ({"x__json": "{"}, "there is no corpus in it"),
        ({"x__json__gz": "not gzip"}, "there is no corpus in it"),
        ({"x_corpus__json": '[{"title": "a", "text": "b"}]'}, "there is no corpus in it"),
        ({"x__json": '[{"question": 7, "answer": "x", "context": []}]'}, "cannot be used"),
        ({"x__jsonl": '{"question": "x", "paragraphs": []}'}, "cannot be used"),
        ({"x__jsonl": '{"question": "x", "paragraphs": []}\n{'}, "cannot be used"),
        ({"x__json": '[{"question": "x", "context": ['}, "cannot be used"),
        ({"x__json": b'"question" "context" \xff\xfe'}, "cannot be read"),
        ({"questions__jsonl": '{"question": "x"}'}, "golden_answers or answers or answer or target"),
        ({"questions__jsonl": ""}, "there is no question in it"),
        ({"corpus__jsonl": '{"id": "a", "contents": "b"}'}, "there are no questions beside it"),
        ({"x__json": json.dumps([HOTPOT, {"question": "?", "context": []}])}, "row 2: there is no 'answer'"),
        ({"x__json": json.dumps([{**HOTPOT, "question": "x" * 5000}])}, "row 1: .* 5000 characters"),
        ({"x__json": json.dumps([{**HOTPOT, "question": ""}])}, "row 1: .* 0 characters"),
        (
            {"corpus__jsonl": lines({"id": "1"}), "questions__jsonl": lines({"query": "?", "answer": "x"})},
            "row 1: there is no 'contents or text'",
        ),
        ({"x__json": json.dumps([HOTPOT, [1]])}, "row 2: .* is no object"),
        ({"x__json": json.dumps([{**HOTPOT, "answer": " "}])}, "an answer has 0 spellings"),
        ({"x__json": '[{"question": "x", "context": ' + "[" * 9999}, "cannot be used"),
        ({"questions__jsonl": '{"query": "?", "answer": "x", "canary": "not base64"}'}, "row 1: "),
        ({"x__json": '"question" "context"'.encode("utf-16")}, "there is no corpus in it"),
        (
            {
                "corpus__jsonl": lines({"id": 1, "contents": "a"}, {"id": 1, "contents": "b"}),
                "questions__jsonl": lines({"query": "?", "answer": "x"}),
            },
            "row 2: .*two documents have the id '1'",
        ),
        (
            {"corpus__jsonl": lines({"id": 1, "contents": "a"}), "b__csv": "problem,answer,canary\nx"},
            "a row has more or fewer fields",
        ),
        ({"a__json": '"question" "context"', "a__jsonl": '"question" "context"'}, "two corpora are called 'a'"),
    ],
)
def test_what_is_no_corpus_is_refused(tmp_path, files, why):
    with pytest.raises(DataError, match=why):
        corpus(tmp_path, **files)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        find_corpora(tmp_path / "nowhere")
