"""The search worlds in play: what is found and read, what it costs, and what is remembered."""

import pytest

from agentenvs.core import prepared, registry
from agentenvs.core.errors import ConfigError, DataError, OptionError, SplitError
from agentenvs.core.sealed import VARIABLE
from agentenvs.core.streams import scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.searchworld import holdings, propose
from agentenvs.envs.searchworld.holdings import Place
from agentenvs.envs.searchworld.spec import SPEC
from agentenvs_scenarios.searchworld.model import Scenario


def make(**options):
    return registry.make("searchworld", **{"people": "500", **options})


def begun(index=0, **options):
    env = make(**options)
    env.reset(TaskRef("train", index))
    return env


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def test_an_address_is_one_scenario_and_universes_are_shared():
    first, second = make().scenario("train", 5), make().scenario("train", 5)
    assert first == second
    assert make().scenario("train", 299).library == first.library
    assert make().scenario("train", 300).library != first.library
    assert make().scenario("train", -1).library != first.library
    assert Scenario.from_json(first.to_json()) == first


def test_splits_and_sizes_have_universes_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "ab" * 16)
    monkeypatch.setattr(holdings, "_universes", holdings.Recent(holdings.KEPT_PEOPLE, holdings._people))
    found = {make().scenario(split, 0).library for split in ("train", "dev", "test", "sealed")}
    assert len(found) == 4
    assert {path.name.rpartition("-")[0] for path in tmp_path.iterdir()} == {"searchworld-universe"}
    assert len(list(tmp_path.iterdir())) == 2
    sealed = make().scenario("sealed", 0)
    assert sealed.name == "sealed"
    monkeypatch.setenv(VARIABLE, "cd" * 16)
    assert make().scenario("sealed", 0).library != sealed.library


def test_sealed_splits_need_the_secret():
    with pytest.raises(ConfigError, match="secret"):
        make().reset(TaskRef("sealed", 0))


def test_the_opening_asks_and_says_how():
    env = begun()
    sentence = env.current.question.sentence
    assert f"Question: {sentence}" in env.observation.text
    assert env.task().instruction == sentence
    assert dict(env.observation.budgets) == {"searches": 32, "steps": 64}
    tags = begun(dialect="tags").observation.text
    assert sentence in tags
    assert "<search>" in tags


def test_a_search_lists_and_a_read_opens():
    env = begun()
    anchor = env._held.library.title(17)
    seen = env.step(call("search", query=anchor, k=4)).observation
    lines = seen.text.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("1. [")
    assert f"] {anchor}: " in lines[0]
    assert lines[-1] == "Searches left: 31."
    name = lines[0].partition("[")[2].partition("]")[0]
    by_id = env.step(call("read", article=name)).observation.text
    assert env.step(f"read: {anchor}").observation.text == by_id
    assert by_id.startswith(f"{anchor} [{name}]\n")
    assert list(env.world.opened.values()) == [2]


def test_tags_bring_whole_articles_back():
    env = begun(results=2)
    title = env._held.library.title(17)
    text = env.step(f"<think>So?</think><search>{title}</search>").observation.text
    assert text.startswith(f"\n\n<information>Doc 1(Title: {title}) ")
    assert text.endswith("</information>\n\n")
    assert text.count("Doc ") == 2
    assert len(env.world.opened) == 2


def test_searches_run_out_and_nothing_is_found_for_stop_words():
    env = begun(searches=2)
    assert env.declared_budgets()["searches"] == 2
    assert env.step("search: who is the of").observation.text == "Nothing was found.\nSearches left: 1."
    env.step("search: silver")
    result = env.step("search: silver")
    assert result.info["invalid"]
    assert "no searches are left" in result.observation.text
    assert env.last_valid == (False, "no_searches_left")


def test_the_key_is_of_what_was_opened_and_not_of_the_way():
    first, second = begun(), begun()
    titles = [first._held.library.title(number) for number in (3, 4)]
    for title in titles:
        first.step(f"read: {title}")
    for title in reversed(titles):
        second.step("search: silver")
        second.step(f"read: {title}")
    assert first.state_key == second.state_key != begun().state_key


def test_one_answer_ends_the_episode():
    env = begun()
    wanted = [texts[0] for texts in env.current.question.answers]
    result = env.step(call("answer", answers=wanted))
    assert (result.reward, result.terminated) == (1.0, True)
    assert env.verdict.components["evidence"] == 0.0
    assert begun(evidence=True).step(call("answer", answers=wanted)).reward == 0.0


def test_what_was_answered_was_seen_or_not():
    env = begun()
    title = env._held.library.title(17)
    env.step(f"read: {title}")
    env.step(f"answer: {title}; Somebody Unseen")
    assert env.verdict.facts["seen"] == [True, False]
    assert env.verdict.components["seen"] == 0.5


def test_noise_misses_some_and_always_the_same():
    def found(**options):
        return begun(**options).step(call("search", query="silver purse hearth", k=10)).observation.text

    assert found(noise=40) == found(noise=40) != found()
    assert found(noise=40).count("[") == 10


@pytest.mark.parametrize("options", [{"noise": 100}, {"results": 11}, {"people": "7"}, {"reward": "most"}])
def test_options_are_refused(options):
    with pytest.raises(OptionError):
        make(**options)


def test_traces_tell_the_facts_of_an_article():
    env = begun()
    library = env._held.library
    env.step("search: silver")
    assert {fact.relation for fact in env.last_trace.observed} == {"found"}
    env.step(f"read: {library.title(17)}")
    trace = env.last_trace
    assert trace.observed[0].relation == "opened"
    assert len(trace.observed) > 4
    assert all(fact.first_seen == 2 for fact in trace.observed)
    assert trace.action == call("read", article=library.id_of(17))
    env.step("answer: none")
    assert env.last_trace.milestones == ("answered",)
    assert env.last_trace.written[0].value == "none"


def test_labels_hold_the_gates():
    env = begun()
    labels = env.labels()
    assert all(labels["gates"].values())
    assert labels["par"] == len(env.current.question.supports) + 1
    assert labels["difficulty"] in ("easy", "medium", "hard", "hardest")


def test_a_description_maps_the_universe_and_proves_the_question():
    text = make().describe(TaskRef("train", 0))
    scenario = make().scenario("train", 0)
    assert "a universe of 500 people: 620 articles" in text
    assert scenario.question.sentence in text
    assert text.count(" = ") >= scenario.question.hops - 1
    assert all(f"[{name}]" in text for name in scenario.question.supports)


def test_a_scenario_of_another_library_is_not_played():
    env = begun()
    other = make().scenario("train", 300)
    env.scenario = lambda split, index: other
    with pytest.raises(DataError, match="not at hand"):
        env.reset(TaskRef("train", 0))


def test_there_is_no_other_split():
    with pytest.raises(SplitError, match="hand the corpus over"):
        make().scenario("hotpot", 0)


def test_libraries_are_searched_without_an_episode():
    env = make()
    names = env.libraries()
    assert {"train/0", "dev/0", "test/5"} <= set(names)
    assert not any("sealed" in name for name in names)
    library = env.library("train/1")
    (name, score), *_ = library.search(library.title(5), 3)
    assert score > 0
    assert library.document(name).title == library.title(5)
    assert library.document(library.title(5)).id == name
    assert library.document("nothing of that name") is None
    assert library.search("\ud800\x00" * 9000, 5) == []
    assert [env.library(name) for name in ("sealed/0", "dev/99", "train/x", "x", "train/", "train/9" * 9)] == [None] * 6


def test_what_was_prepared_is_opened_and_what_was_not_is_made(tmp_path):
    place = Place("train", 7, 500)
    folder = prepared.make(SPEC, holdings.item(place), tmp_path)
    assert {path.name for path in folder.iterdir()} >= {"universe.bin", "index.bin"}
    opened = holdings._opened(SPEC, place, str(tmp_path))
    built = holdings._opened(SPEC, place, None)
    assert opened.library.digest == built.library.digest
    assert opened.library.index._bundle.path is not None
    made = holdings._opened(SPEC, Place("train", 8, 500), str(tmp_path))
    assert made.library.index._bundle.path is None
    assert [item.key["number"] for item in type(make()).preparations({"people": "500"}, ("dev",))] == [0, 1, 2]
    assert len(list(type(make()).preparations({"people": "500"}, ("train", "sealed", "none")))) == 4


def test_a_folder_without_universes_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError):
            make(prepared=str(folder)).reset(TaskRef("train", 8_000))


def test_what_a_split_with_an_end_lacks_is_told_once(tmp_path, caplog):
    prepared.make(SPEC, holdings.item(Place("train", 7, 500)), tmp_path)
    for place in (Place("dev", 0, 500), Place("dev", 1, 500), Place("train", 9, 500)):
        assert holdings._opened(SPEC, place, str(tmp_path)).library.index._bundle.path is None
    assert [record.getMessage().partition(" lacks ")[2] for record in caplog.records] == [
        "universes of dev with 500 people, which are made in memory"
    ]


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTENVS_CACHE", str(tmp_path / "file"))
    assert holdings._opened(SPEC, Place("dev", 1, 500), None).library.index._bundle.path is None


def test_universes_are_kept_while_they_are_used():
    kept: holdings.Recent[object] = holdings.Recent(2)
    first = kept.get("a", object)
    assert kept.get("a", object) is first
    kept.get("b", object)
    kept.get("c", object)
    assert kept.get("a", object) is not first
    heavy: holdings.Recent[int] = holdings.Recent(10, lambda value: value)
    assert [heavy.get(name, lambda: 6) for name in "abc"] == [6, 6, 6]
    assert heavy.get("c", lambda: 7) == 6
    assert heavy.get("a", lambda: 70) == heavy.get("a", lambda: 7) == 70


def test_looking_at_another_scenario_disturbs_no_episode():
    env = begun()
    title = env.world.library.title(17)
    env.describe(TaskRef("train", 900))
    env.step(f"read: {title}")
    assert len(env.last_trace.observed) > 4
    twin = env.fork()
    assert twin.restore(env.snapshot()) == env.observation


def test_a_question_s_place_decides_its_universe_and_card():
    assert propose.place_of("train", 301, 500) == (Place("train", 1, 500), 1)
    assert propose.place_of("dev", 250, 500) == (Place("dev", 2, 500), 50)
    cards = [propose.card_of("train", index, 500, "mixed") for index in range(300)]
    assert len(set(cards)) > 100
    assert scenario_key("searchworld", "train", 0) != holdings.universe_key(Place("train", 0, 500))
