"""The playground by its forms, without a browser: episodes won by hand, turns played once, undo, friendly pages."""

from __future__ import annotations

import json

import pytest

from agentenvs.core.actions import parse_action, to_json
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay
from agentenvs_servers.doors.opening import open_doors
from agentenvs_servers.settings import Settings
from tests.doors.hand import HTML, Hand, by_program, winning
from tests.servers.wire import Wire

pytestmark = pytest.mark.anyio

ENVS = ("household", "webshop", "searchworld", "clerk", "ledger", "room")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def wire():
    made = Wire(ENVS, Settings(), {"products": 1000, "people": "500"})
    open_doors(made.app)
    yield made
    await made.hall.close()
    await made.http.aclose()


@pytest.fixture
def hand(wire):
    return Hand(wire.http)


async def play(hand, actions):
    """Play actions by the forms that are for them."""
    for action in actions:
        form = to_json(parse_action(action))
        if isinstance(form, str):
            await hand.say(form)
        elif "message" in form:
            await hand.press("Say it", {"message": form["message"]})
        elif "end" in form:
            await hand.press("End it", {"end": form["end"]})
        elif "tool" in form:
            await hand.call(form["tool"], **{name: _written(value) for name, value in form["arguments"].items()})
        else:
            *first, last = form["calls"]
            for call in first:
                written = {f"a.{name}": _written(value) for name, value in call["arguments"].items()}
                await hand.press("Add to this turn", written, tool=call["tool"])
            written = {f"a.{name}": _written(value) for name, value in last["arguments"].items()}
            await hand.press("Play all, this last" if first else "Call it", written, tool=last["tool"])


def _written(value):
    if isinstance(value, list):
        return "\n".join(value)
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize(
    ("env", "split", "options"),
    [
        ("household", "builtin", {}),
        ("household", "dev", {"profile": "native"}),
        ("webshop", "train", {"products": 1000}),
        ("searchworld", "train", {"people": "500"}),
        ("clerk", "train", {}),
    ],
)
async def test_an_episode_is_won_by_the_forms_and_its_record_is_that_of_a_program(hand, env, split, options):
    actions, record = winning(env, split, 1, **options)
    await hand.begin(env, split, 1, **{name: str(value) for name, value in options.items()})
    await play(hand, actions)
    assert "Won · reward 1" in hand.page.words
    found = await hand.record()
    assert found == record
    assert replay(parse_records(found)[0]).divergence is None


async def test_worlds_are_listed_with_what_they_are(hand):
    for way in ("/", "/play/"):
        page = await hand.go(way)
        assert page.path == "/play"
    for words in ("Household", "Web shop", "13 tools", "20 steps"):
        assert words in page.words
    page = await hand.go("/play/worlds/household")
    assert "Sealed: each is given out once" in page.words
    assert "go_to" in page.words
    form, _ = page.form("Play it")
    assert {"split", "index", "o.profile", "o.limit", "o.admissible"} <= set(form.fields)
    assert "o.data" not in form.fields


async def test_options_are_chosen_and_told_again(hand):
    page = await hand.begin("household", "dev", 3, limit="7", admissible="yes", profile="native")
    assert "steps left: 7" in page.words
    page = await hand.go(page.links["Choose another"])
    form, _ = page.form("Play it")
    told = {name: form.fields[name] for name in ("split", "index", "o.limit", "o.admissible", "o.profile")}
    assert told == {"split": "dev", "index": "3", "o.limit": "7", "o.admissible": "yes", "o.profile": "native"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"index": "many"}, "a whole number is wanted"),
        ({"index": ""}, "something is wanted here"),
        ({"index": "999999"}, "No such scenario"),
        ({"o.limit": "1.5"}, "a whole number is wanted"),
        ({"o.limit": "-1"}, "An option is refused"),
        ({"o.profile": "odd"}, "choose one of the list"),
        ({"split": "sealed"}, "choose one of the list"),
    ],
)
async def test_a_choice_that_cannot_be_is_shown_again(wire, hand, written, said):
    await hand.go("/play/worlds/household")
    page = await hand.press("Play it", {"split": "dev", **written})
    assert page.status == 422
    assert said in page.words
    form, _ = page.form("Play it")
    assert {name: form.fields[name] for name in written if name not in ("o.profile", "split")} == {
        name: value for name, value in written.items() if name not in ("o.profile", "split")
    }
    assert len(wire.hall.open) == 0


async def test_any_scenario_of_a_split_is_drawn_once_for_a_form(wire, hand):
    page = await hand.go("/play/worlds/household")
    form, _ = page.form("Play it")
    body = {**form.fields, "split": "dev", "do": "random"}
    places = [(await wire.http.post(form.action, data=body)).headers["location"] for _ in range(3)]
    assert len(set(places)) == 1
    assert len(wire.hall.open) == 1


async def test_a_form_sent_twice_is_played_once(wire, hand):
    page = await hand.begin("household", "builtin", 0)
    form, pressed = page.form("Do it")
    body = {**form.fields, **pressed, "text": "look"}
    for _ in range(3):
        answer = await wire.http.post(form.action, data=body)
        assert (answer.status_code, answer.headers["location"]) == (303, page.path)
    answer = await wire.http.post(form.action, data={**body, "text": "inventory"})
    assert answer.headers["location"] == f"{page.path}?said=turn_conflict"
    page = await hand.go(answer.headers["location"])
    assert "That page was a turn old: what it sent was not played." in page.words
    assert "turn 1" in page.words


async def test_two_tabs_play_one_episode(wire, hand):
    first = await hand.begin("household", "builtin", 0)
    other = Hand(wire.http)
    other.page = first
    await hand.say("look")
    await hand.say("inventory")
    page = await other.say("go to armchair 1")
    assert "nothing was played" in page.words
    assert "turn 2" in page.words
    await other.say("go to armchair 1")
    assert "turn 3" in (await hand.go(page.path)).words


async def test_turns_are_taken_back_by_playing_the_others_again(hand):
    actions, record = winning("household", "builtin", 0)
    await hand.begin("household", "builtin", 0)
    await hand.say(actions[0])
    await hand.say("dance")
    await hand.say("dance again")
    page = await hand.press("Take the last turn back")
    assert "turn 2" in page.words
    assert "Nothing happens." in page.words
    page = await hand.press("Go back to here", kept="1")
    assert "turn 1" in page.words
    await play(hand, actions[1:])
    assert "Won" in hand.page.words
    assert await hand.record() == record
    page = await hand.press("Take the last turn back")
    assert f"turn {len(actions) - 1}" in page.words
    assert "Your turn" in page.words


async def test_a_turn_is_taken_back_once_for_a_form(wire, hand):
    await hand.begin("household", "builtin", 0)
    for action in ("look", "inventory", "look"):
        await hand.say(action)
    form, pressed = hand.page.form("Take the last turn back")
    for _ in range(3):
        await wire.http.post(form.action, data={**form.fields, **pressed})
    assert "turn 2" in (await hand.go(hand.page.path)).words


async def test_turns_of_a_world_with_chance_are_not_taken_back(hand):
    await hand.begin("clerk", "train", 0)
    page = await hand.press("Say it", {"message": "Hello"})
    assert "The other speaker" in page.words
    assert "Customer: " in page.words
    assert "Take the last turn back" not in page.html


async def test_it_is_played_again_and_the_next_one(hand):
    await hand.begin("household", "builtin", 10, limit="1")
    page = await hand.say("look")
    assert "A limit was reached." in page.words
    page = await hand.press("Play it again")
    assert "builtin 10 · turn 0" in page.words
    await hand.say("look")
    page = await hand.press("Play the next one")
    assert "builtin 11 · turn 0" in page.words
    page = await hand.say("look")
    assert "Play the next one" not in page.words
    assert "Earlier episodes of this session" in page.words
    earlier = [link for name, link in page.links.items() if name.startswith("Record of")]
    assert len(earlier) == 2
    answer = await hand.http.get(earlier[0])
    assert answer.content == by_program("household", "builtin", 10, ["look"], limit=1)


async def test_an_episode_is_given_up_and_still_shown(hand):
    await hand.begin("household", "builtin", 0)
    await hand.say("look")
    page = await hand.press("Give up this episode")
    assert "Lost · reward 0" in page.words
    assert "It was given up." in page.words
    assert "You are in the middle of a room." in page.words  # seen again, though its world is gone
    assert await hand.record() == by_program("household", "builtin", 0, ["look"])
    assert "no: a goal object is in a target receptacle" in page.words


@pytest.mark.parametrize("code", ["closed", "expired"])
async def test_a_form_of_a_session_that_is_over_leads_to_its_end(wire, hand, code):
    old = await hand.begin("household", "builtin", 0)
    if code == "expired":
        wire.clock.now += 4_000
    else:
        await wire.http.delete(old.path.replace("/play/", "/v1/"))
    page = await hand.say("look")
    assert "nothing was played" in page.words
    assert "Lost" in page.words
    wire.clock.now += 8_000
    await wire.hall.sweep(now=True)
    page = await hand.go(old.path)
    assert page.status == 404
    assert "There is no such episode here" in page.words
    assert page.links["Go to the playground"] == "/play"


async def test_problems_are_pages_for_browsers_alone(wire):
    for path in ("/play/sessions/nothing", "/play/worlds/nothing"):
        assert (await wire.http.get(path)).headers["content-type"] == "application/problem+json"
        answer = await wire.http.get(path, headers=HTML)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")


NONSENSE = [
    ("Do it", {}, {"text": ""}, ""),
    ("Do it", {}, {"text": "\x00\x1b[31m ‮ 💥"}, "\x00\x1b[31m ‮ 💥"),
    ("Do it", {}, {"text": "<script>alert(1)</script>"}, "<script>alert(1)</script>"),
    ("Do it", {}, {"text": "{{ 1111 * 1111 }}"}, "{{ 1111 * 1111 }}"),
    (
        "Call it",
        {"tool": "go_to"},
        {"a.receptacle": "nowhere"},
        {"tool": "go_to", "arguments": {"receptacle": "nowhere"}},
    ),
    ("Call it", {"tool": "look"}, {}, {"tool": "look", "arguments": {}}),
    ("Play it", {}, {"json": "17"}, 17),
    ("Play it", {}, {"json": '{"tool": 1}'}, {"tool": 1}),
    ("Play it", {}, {"json": '["look"]'}, ["look"]),
    ("Play it", {}, {"json": "[" * 40 + "]" * 40}, json.loads("[" * 40 + "]" * 40)),
]


@pytest.mark.parametrize(("button", "having", "written", "action"), NONSENSE)
async def test_nonsense_is_a_turn_as_for_a_program(hand, button, having, written, action):
    await hand.begin("household", "builtin", 0)
    page = await hand.press(button, written, **having)
    assert "turn 1" in page.words
    assert "<script>alert" not in page.html
    assert "1234321" not in page.html
    await hand.press("Give up this episode")
    assert await hand.record() == by_program("household", "builtin", 0, [action])


async def test_what_does_not_print_is_seen(hand):
    await hand.begin("household", "builtin", 0)
    page = await hand.say("a\u202eb\x1b[31mc\xa0d")
    assert "\u202e" not in page.words
    assert "\x1b" not in page.words
    assert "a\ufffdb\ufffd[31mc\xa0d" in page.words


async def test_what_cannot_be_read_is_shown_again_and_uses_no_turn(hand):
    await hand.begin("searchworld", "train", 0)
    page = await hand.press("Call it", {"a.query": "river", "a.k": "five"}, tool="search")
    assert page.status == 422
    assert "a whole number is wanted" in page.words
    assert "turn 0" in page.words
    form, _ = page.form("Call it", tool="search")
    assert (form.fields["a.query"], form.fields["a.k"]) == ("river", "five")
    page = await hand.press("Play it", {"json": "{oops"})
    assert page.status == 422
    assert "that is no JSON" in page.words
    assert page.form("Play it")[0].fields["json"] == "{oops"
    page = await hand.press("Call it", {"a.query": "river", "a.k": ""}, tool="search")
    assert 'search(query="river")' in page.words


async def test_a_turn_of_several_calls_is_put_together(hand):
    await hand.begin("ledger", "train", 0)
    await hand.press("Add to this turn", {"a.account": "1000"}, tool="balance")
    before = hand.page
    page = await hand.press("Add to this turn", {"a.account": "<b>"}, tool="balance")
    assert "Calls of this turn" in page.words
    assert "2 of 8" in page.words
    assert "turn 0" in page.words
    page = await hand.press("Remove", {})
    assert "1 of 8" in page.words
    assert "&lt;b&gt;" in page.html
    page = await hand.press("Play these calls")
    assert "turn 1" in page.words
    hand.page = before
    page = await hand.press("Add to this turn", {}, tool="next_invoice")
    assert "nothing was played" in page.words
    await hand.press("Play it", {"json": '{"end": ""}'})
    await hand.press("Give up this episode")
    expected = [{"calls": [{"tool": "balance", "arguments": {"account": "<b>"}}]}, {"end": ""}]
    assert await hand.record() == by_program("ledger", "train", 0, expected)


async def test_a_long_episode_comes_in_pages(hand, wire):
    page = await hand.begin("ledger", "train", 0)
    session = page.path.replace("/play/", "/v1/")
    status = (await wire.http.get(session)).json()
    for turn in range(1, 121):
        body = {
            "episode": status["episode"],
            "turn": turn,
            "action": {"tool": "balance", "arguments": {"account": "1000"}},
        }
        assert (await wire.http.post(f"{session}/step", json=body)).status_code == 200
    page = await hand.go(page.path)
    assert "120 · " in page.words
    assert "101 · " in page.words
    assert "100 · " not in page.words
    assert len(page.html) < 60_000
    page = await hand.go(page.links["Earlier turns"])
    assert "100 · " in page.words
    assert "not kept here" not in page.words  # a program played it; what it saw is found out again
    page = await hand.go(page.links["Later turns"])
    assert "120 · " in page.words
    page = await hand.press("Go back to here", kept="101")
    assert "turn 101" in page.words


async def test_a_long_turn_of_the_past_has_a_page_of_its_own(hand):
    await hand.begin("webshop", "train", 0, profile="native", observation="text_rich", limit="0")
    await hand.call("search", query="lamp")
    long = "x" * 9_000
    await hand.press("Play it", {"json": json.dumps({"calls": [{"tool": "search", "arguments": {"query": long}}]})})
    page = await hand.go(f"{hand.page.path}?at=1&upto=1")
    assert "An earlier turn." in page.words
    assert "Turn 1" in page.words
    assert "Your turn" in page.words  # what is played is played now
    form, _ = page.form("Do it")
    assert form.fields["turn"] == "3"
    page = await hand.go(page.links["Back to now"])
    assert "An earlier turn." not in page.words


@pytest.mark.parametrize(
    "query", ["a=1&" * 500, "upto=x&at=-1&said=<b>", "at=999&upto=999999999999999999999", "%ff=%zz"]
)
async def test_odd_addresses_show_the_episode(wire, hand, query):
    page = await hand.begin("household", "builtin", 0)
    page = await hand.go(f"{page.path}?{query}")
    assert page.status == 200
    assert "Your turn" in page.words
    assert "<b>" not in page.html


async def test_data_is_a_table_and_says_which_tool_answered(hand):
    await hand.begin("ledger", "train", 0)
    page = await hand.call("next_invoice")
    assert '<th scope="row">invoice</th><td>0</td>' in page.html
    assert '<p class="who">next_invoice</p>' in page.html


async def test_a_failure_of_the_world_is_told(hand):
    await hand.begin("room", "few", 0)
    page = await hand.say("raise")
    assert "The world failed in that turn." in page.words
    assert "The world failed." in page.words
    assert "Play it again" in page.html


@pytest.mark.parametrize("path", ["", "/back", "/next", "/end"])
async def test_a_form_of_another_site_does_nothing(wire, hand, path):
    page = await hand.begin("household", "builtin", 0)
    form, pressed = page.form("Do it")
    body = {**form.fields, **pressed, "text": "look", "key": "a-key-of-mine", "kept": "0"}
    for headers in ({"origin": "http://elsewhere"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        answer = await wire.http.post(page.path + path, data=body, headers={**HTML, **headers})
        assert answer.status_code == 403
        assert "That came from another site" in answer.text
    assert "turn 0" in (await hand.go(page.path)).words


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"turn=1&do=text&text=x", "text/plain"),
        (b"turn=x&do=text&text=x", "application/x-www-form-urlencoded"),
        (b"turn=0&do=text&text=x", "application/x-www-form-urlencoded"),
        (b"turn=" + b"9" * 400, "application/x-www-form-urlencoded"),
        (b"", "application/x-www-form-urlencoded"),
        (b"turn=1&text=\xff", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % at for at in range(999)), "application/x-www-form-urlencoded"),
    ],
)
async def test_what_is_no_form_of_a_page(wire, hand, body, kind):
    page = await hand.begin("household", "builtin", 0)
    answer = await wire.http.post(page.path, content=body, headers={"content-type": kind, **HTML})
    assert answer.status_code in (415, 422)
    assert answer.headers["content-type"].startswith("text/html")
    assert "turn 0" in (await hand.go(page.path)).words


async def test_pages_say_that_nothing_else_may_be_loaded(wire, hand):
    page = await hand.begin("household", "builtin", 0)
    answer = await wire.http.get(page.path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"


async def test_sealed_scenarios_are_not_played(wire, hand):
    made = await wire.make("room", task={"split": "vault"})
    assert made.status_code == 403  # there is no journal here
    await hand.go("/play/worlds/room")
    form, _ = hand.page.form("Play it")
    answer = await wire.http.post(form.action, data={**form.fields, "do": "play", "split": "vault"})
    assert answer.status_code == 422


async def test_the_key_of_an_agent_opens_no_playground(wire):
    play = await wire.play("household")
    for path in (f"/play/sessions/{play.agent_key}", "/play"):
        answer = await wire.http.get(path, headers={**HTML, "authorization": f"Bearer {play.agent_key}"})
        assert answer.status_code == 403
    answer = await wire.http.get(f"/play/sessions/{play.agent_key}", headers=HTML)
    assert answer.status_code == 403
