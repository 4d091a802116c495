"""The playground of a server that asks for a token: nothing without one, no more with one than it may."""

from __future__ import annotations

import pytest

from agentenvs_servers.doors.opening import open_doors
from agentenvs_servers.settings import Settings
from tests.doors.hand import HTML, Hand
from tests.servers.wire import Wire

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-enough-length"
OTHER = 'another;token,"of=enough\\length'
PATHS = ("/play", "/play/worlds/household", "/play/worlds/nothing", "/play/sessions/nothing")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def wire():
    made = Wire(["household"], Settings(tokens=(TOKEN, OTHER), max_tenant_sessions=1))
    open_doors(made.app)
    yield made
    await made.hall.close()
    await made.http.aclose()


@pytest.fixture
def hand(wire):
    return Hand(wire.http)


@pytest.mark.parametrize("path", PATHS)
async def test_a_stranger_sees_where_to_enter_and_nothing_else(wire, path):
    answer = await wire.http.get(path, headers=HTML)
    assert answer.status_code == 401
    assert "This server asks for a token" in answer.text
    assert "Household" not in answer.text
    assert (await wire.http.get(path)).json()["code"] == "unauthorized"
    for more in ("", "/back", "/next", "/end"):
        assert (await wire.http.post(path + more, data={"key": "12345678"})).status_code in (401, 404, 405)
    for more in ("/record", "/code"):
        assert (await wire.http.get(f"/play/sessions/x{more}", headers=HTML)).status_code == 401
    assert len(wire.hall.open) == 0


@pytest.mark.parametrize("token", [TOKEN, OTHER])
async def test_a_token_opens_it_until_one_leaves(wire, hand, token):
    await hand.go("/play/worlds/household")
    page = await hand.press("Enter", {"token": token})
    assert page.path == "/play/worlds/household"
    cookie = next(iter(wire.http.cookies.jar))
    assert (cookie.path, cookie.has_nonstandard_attr("HttpOnly"), cookie.get_nonstandard_attr("SameSite")) == (
        "/play",
        True,
        "Strict",
    )
    await hand.press("Play it", {"split": "builtin"})
    page = await hand.say("look")
    assert "turn 1" in page.words
    assert token not in page.html
    assert "$AGENTENVS_TOKEN" in (await hand.go(page.links["As Python or curl"])).words
    assert token not in hand.page.html
    await hand.go("/play")
    page = await hand.press("Leave")
    assert page.status == 401
    assert (await wire.http.get("/play", headers=HTML)).status_code == 401


async def test_the_cookie_is_for_secure_connections_where_the_server_has_them(wire):
    wire.http.base_url = "https://server"
    answer = await wire.http.post("/play/enter", data={"token": TOKEN, "to": "/play"})
    assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "wrong", "é" * 20, "x" * 5000, TOKEN[:-1]])
async def test_a_wrong_token_is_told_on_the_page(wire, hand, token):
    await hand.go("/play")
    page = await hand.press("Enter", {"token": token})
    assert page.status == 401
    assert "That is no token of this server that may play." in page.words
    assert not wire.http.cookies


@pytest.mark.parametrize("to", ["https://elsewhere", "//elsewhere", "/play/../v1/envs", "/playing", "/play\r\nX: y"])
async def test_entering_leads_nowhere_else(wire, to):
    answer = await wire.http.post("/play/enter", data={"token": TOKEN, "to": to})
    assert answer.headers["location"] == "/play"


async def test_a_program_may_send_its_token_as_elsewhere(wire):
    answer = await wire.http.get("/play", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("cookie", ["agentenvs_play=%%%", "agentenvs_play=", "agentenvs_play=AAAA", "a=b; ;;=", "\xff"])
async def test_odd_cookies_open_nothing(wire, cookie):
    answer = await wire.http.get("/play", headers={**HTML, "cookie": cookie.encode("latin-1")})
    assert answer.status_code == 401


async def test_no_more_sessions_than_the_token_may_have(wire, hand):
    await hand.go("/play")
    await hand.press("Enter", {"token": TOKEN})
    await hand.begin("household", "builtin", 0)
    await hand.go("/play/worlds/household")
    page = await hand.press("Play it", {"split": "builtin"})
    assert page.status == 429
    assert "You have all the episodes you may have" in page.words


async def test_a_token_for_metrics_plays_nothing(tmp_path):
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[token]]\nname = "a"\ntoken = "{TOKEN}"\n[[token]]\nname = "m"\ntoken = "{TOKEN}-m"\nscope = "metrics"\n'
    )
    wire = Wire(["household"], Settings(token_file=str(file)))
    open_doors(wire.app)
    hand = Hand(wire.http)
    await hand.go("/play")
    assert (await hand.press("Enter", {"token": f"{TOKEN}-m"})).status == 403
    assert (await hand.press("Enter", {"token": TOKEN})).status == 200
    file.write_text(f'[[token]]\ntoken = "{TOKEN}-of-somebody-else"\n')
    wire.hall.keyring.look_again()
    wire.hall.keyring.poll()
    assert (await hand.go("/play")).status == 401  # it was taken from the file: the cookie opens nothing any more
    await wire.hall.close()
    await wire.http.aclose()
