"""Searching a world's documents without a session, as the clients of Search-R1 and ASearcher ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from agentenvs.core import registry
from agentenvs.core.library import Document, Library
from agentenvs.core.search import build
from agentenvs_servers.doors.retrieval import MOST_QUERIES, MOST_RESULTS
from agentenvs_servers.problems import CATALOGUE
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings
from tests.servers import rooms
from tests.servers.rooms import Room

TEXTS = {
    "one": {f"d{number}": (f"Title {number}", "red " * number + "door") for number in range(1, 120)},
    "two": {"x": ("Other", "a red house")},
    "split/3": {"y": ("Third", "a red boat")},
}
TOKEN = "a-token-that-is-long-enough-to-be-one"


class Shelf:
    def __init__(self, texts: dict[str, tuple[str, str]]) -> None:
        self.texts = texts
        self.index = build([(name, " ".join(text)) for name, text in texts.items()])

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        if query == "break":
            raise ValueError("broken")
        return [(hit.id, hit.score / 4096) for hit in self.index.search(query, k)]

    def document(self, name: str) -> Document | None:
        return Document(name, *self.texts[name]) if name in self.texts else None


class Readers(Room):
    spec = replace(
        Room.spec, id="readertests/Readers-v0", slug="readers", entry_point="tests.servers.test_retrieval:Readers"
    )

    def libraries(self) -> tuple[str, ...]:
        return tuple(TEXTS)

    def library(self, name: str) -> Library | None:
        if name == "broken":
            raise ValueError("broken")
        return Shelf(TEXTS[name]) if name in TEXTS else None


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    known = dict(registry._registered)
    rooms.register()
    registry.register(Readers.spec)
    with background(("room", "readers"), Settings(doors="v1,retrieval")) as found:
        yield found
    registry._registered.clear()
    registry._registered.update(known)


def post(url: str, path: str, body: object) -> httpx.Response:
    return httpx.post(url + path, json=body, timeout=30)


def test_search_r1_gets_documents_with_scores(url):
    answer = post(url, "/retrieve", {"queries": ["red house", "title 7"], "topk": 2, "return_scores": True})
    assert answer.status_code == 200
    first, second = answer.json()["result"]
    assert [len(first), len(second)] == [2, 2]
    assert second[0]["document"] == {"id": "d7", "contents": '"Title 7"\n' + "red " * 7 + "door", "url": "d7"}
    assert second[0]["score"] > second[1]["score"] > 0


def test_without_scores_the_documents_stand_alone(url):
    (documents,) = post(url, "/retrieve", {"queries": ["title 7"]}).json()["result"]
    assert (documents[0]["id"], len(documents)) == ("d7", 3)


@pytest.mark.parametrize(("topk", "count"), [(0, 3), (-5, 1), (10**9, MOST_RESULTS), (None, 3)])
def test_the_number_of_results_is_bounded(url, topk, count):
    (documents,) = post(url, "/retrieve", {"queries": ["red"], "topk": topk}).json()["result"]
    assert len(documents) == count


@pytest.mark.parametrize("query", ["", " ", "zzz", "break", "\x00", "a" * 100_000, "\U0001f600", '"(*'])
def test_no_query_is_a_fault(url, query):
    answer = post(url, "/retrieve", {"queries": [query, "red"], "return_scores": True})
    assert answer.status_code == 200
    assert [len(results) for results in answer.json()["result"]] == [0, 3]


def test_half_a_surrogate_is_no_fault(url):
    body = b'{"queries":["\\ud800 red"]}'
    answer = httpx.post(f"{url}/retrieve", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, len(answer.json()["result"][0])) == (200, 3)


def test_fields_of_their_own_are_left_unread(url):
    answer = post(url, "/retrieve", {"queries": ["red"], "topk": 2, "topk_rerank": 1, "user": "x"})
    assert (answer.status_code, len(answer.json()["result"][0])) == (200, 2)
    assert post(url, "/access", {"urls": ["d2"], "timeout": 5}).status_code == 200


def test_many_queries_are_answered_in_order(url):
    queries = [f"title {number}" for number in range(1, 100)]
    answer = post(url, "/retrieve", {"queries": queries, "topk": 1}).json()["result"]
    assert [documents[0]["id"] for documents in answer] == [f"d{number}" for number in range(1, 100)]


@pytest.mark.parametrize(
    "body", [{}, {"queries": "red"}, {"queries": [1]}, {"queries": ["x"] * (MOST_QUERIES + 1)}, [], {"topk": "x"}]
)
def test_a_malformed_request_is_refused_and_not_to_be_repeated(url, body):
    answer = post(url, "/retrieve", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_asearcher_reads_pages(url):
    answer = post(url, "/access", {"urls": ["d2", "none", ""]})
    page, *none = answer.json()["result"]
    assert page["contents"] == '"Title 2"\nred red door'
    assert none == [None, None]


def test_libraries_are_listed_and_addressed(url):
    listed = httpx.get(f"{url}/libraries").json()["libraries"]
    assert listed == [{"env": "readers", "library": name} for name in ("one", "two", "split/3")]
    for path, name in (("two", "x"), ("split/3", "y"), ("split%2F3", "y"), ("two", "x")):
        answer = post(url, f"/readers/libraries/{path}/retrieve", {"queries": ["red"]})
        assert [document["id"] for document in answer.json()["result"][0]] == [name]
    assert post(url, "/readers/libraries/two/access", {"urls": ["x", "d2"]}).json()["result"][1] is None


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/readers/libraries/three/retrieve", "library_unknown"),
        ("/readers/libraries/broken/retrieve", "library_unknown"),
        ("/readers/libraries/split/4/access", "library_unknown"),
        ("/room/libraries/one/retrieve", "library_unknown"),
        ("/nowhere/libraries/one/retrieve", "env_unknown"),
    ],
)
def test_a_library_that_is_none_is_told(url, path, code):
    answer = post(url, path, {"queries": ["red"]})
    assert (answer.status_code, answer.json()["code"]) == (CATALOGUE[code].status, code)


def test_the_door_is_documented_and_other_routes_stay(url):
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    assert {"/retrieve", "/access", "/libraries", "/{env}/libraries/{library}/retrieve"} <= set(paths)
    assert httpx.get(f"{url}/ready").status_code == 200
    assert httpx.get(f"{url}/retrieve").status_code == 405


def test_a_token_may_be_the_password_of_the_address():
    registry.register(Readers.spec)
    with background(("readers",), Settings(doors="retrieval", tokens=(TOKEN,))) as url:
        body = {"queries": ["red"]}
        assert post(url, "/retrieve", body).status_code == 401
        assert post(url.replace("//", "//any:wrong@"), "/retrieve", body).status_code == 401
        assert post(url.replace("//", f"//any:{TOKEN}@"), "/retrieve", body).status_code == 200
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.post(f"{url}/retrieve", json=body, headers=bearer).status_code == 200
        assert httpx.get(f"{url}/libraries", headers={"authorization": "Basic ???"}).status_code == 401
