"""Real corpora behind the same tools and reward."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import DataError, OptionError
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.envs.searchworld.players import oracle

SPLIT = "phantom_wiki_n50_d10"


def played(env, index):
    observation = env.reset(TaskRef(SPLIT, index))
    player = oracle()
    player.reset(env.spec, env.task())
    player.reveal(env.current)
    while env.ending is None:
        observation = env.step(player.act(observation)).observation
    return env.verdict


def test_the_oracle_wins_every_handed_question(shared_data):
    env = registry.make("searchworld", data=str(shared_data / "searchworld"))
    split = env.splits()[SPLIT]
    assert (split.size, len(split.panel)) == (200, 64)
    assert all(played(env, index).success for index in range(200))


def test_sqlites_engine_takes_a_corpus_and_says_so_in_its_digest(shared_data):
    data = str(shared_data / "searchworld")
    envs = [registry.make("searchworld", data=data, engine=engine) for engine in ("bm25", "fts5")]
    assert all(played(env, index).success for env in envs for index in range(10))
    libraries = [env.library(SPLIT) for env in envs]
    assert libraries[0].digest != libraries[1].digest
    name = libraries[0].title(7)
    found = [library.look_for(name, 3) for library in libraries]
    assert [library.title(hits[0].number) for library, hits in zip(libraries, found, strict=True)] == [name, name]
    assert list(libraries[0].mentions(name)) == list(libraries[1].mentions(name)) != []
    with ThreadPoolExecutor(4) as threads:
        assert (
            list(threads.map(lambda _: libraries[1].search(name, 3), range(16))) == [libraries[1].search(name, 3)] * 16
        )


def test_sqlites_engine_is_for_a_corpus():
    with pytest.raises(OptionError, match="for a corpus"):
        registry.make("searchworld", engine="fts5")


def test_a_long_article_leaves_room_for_others(tmp_path):
    documents = [{"id": str(number), "contents": f"Red {number}\n" + "red door " * 9_000} for number in range(3)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (tmp_path / "questions.jsonl").write_text(json.dumps({"question": "Which door?", "answer": "red"}))
    env = registry.make("searchworld", data=str(tmp_path))
    env.reset(TaskRef(tmp_path.name, 0))
    seen = env.step("<search>red door</search>").observation.text
    assert seen.count("(Title: Red") == 3
    assert seen.endswith("…</information>\n\n")


def test_commas_part_answers_as_in_the_original(shared_data):
    env = registry.make("searchworld", data=str(shared_data / "searchworld"))
    env.reset(TaskRef(SPLIT, 0))
    said = ", ".join(texts[0].upper() for texts in env.current.question.answers)
    assert env.step(f"answer: {said}").reward == 1.0


def test_a_corpus_is_searched_and_read(shared_data):
    env = registry.make("searchworld", data=str(shared_data / "searchworld"))
    observation = env.reset(TaskRef(SPLIT, 0))
    assert "all names are invented" not in observation.text
    assert "Aida Wang: # Aida Wang" in env.step("search: Aida Wang").observation.text
    assert "The hobby of Aida Wang is meditation." in env.step("read: Aida Wang").observation.text
    assert env.library(SPLIT).document("Aida Wang").title == "Aida Wang"
    assert SPLIT in env.libraries()
    assert "a corpus of 50 articles" in env.describe(TaskRef(SPLIT, 0))
    assert env.labels()["kind"] == "chain"


def test_records_of_a_corpus_replay(shared_data):
    options = {"data": str(shared_data / "searchworld")}
    recorded = Recorded(registry.make("searchworld", **options))
    recorded.reset(TaskRef(SPLIT, 3))
    for action in ("search: friend", "read: Aida Wang", "answer: Aida Wang"):
        recorded.step(action)
    record = parse_records(recorded.to_bytes())[0]
    assert replay(record, registry.make("searchworld", **options)).equal
    assert rescore(record, registry.make("searchworld", **options)).equal


def test_answers_with_aliases(tmp_path):
    row = {
        "id": "2hop__1",
        "question": "Where?",
        "answer": "Washington, D.C.",
        "answer_aliases": ["Washington"],
        "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "It is there.", "is_supporting": True}],
    }
    (tmp_path / "musique.jsonl").write_text(json.dumps(row))
    for said in ("Washington, D.C.", "the WASHINGTON", "washington d c"):
        env = registry.make("searchworld", data=str(tmp_path))
        env.reset(TaskRef("musique", 0))
        assert env.step({"tool": "answer", "arguments": {"answers": [said]}}).reward == 1.0


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no corpus in it"):
        registry.make("searchworld", data=str(tmp_path))
