"""A person at the playground without a browser: reads pages, fills in forms, presses buttons."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx

from agentenvs.core import registry, targets
from agentenvs.core.record import Recorded
from agentenvs.core.task import TaskRef
from agentenvs.harness import policies

HTML = {"accept": "text/html,application/xhtml+xml"}


@dataclass
class Form:
    action: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, value and label."""


class Page(HTMLParser):
    """A page: its forms and its words."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.status = answer.status_code
        self.html = answer.text
        self.path = answer.url.path
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        self.words = ""
        self._at: dict[str, Any] = {}
        self._silent = False
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._silent = tag in ("style", "script")
        if tag == "form":
            self.forms.append(Form(found.get("action", self.path)))
        elif tag == "a":
            self._at = {"link": found["href"]}
        elif tag in ("input", "textarea", "select") and self.forms and "name" in found:
            self.forms[-1].fields[found["name"]] = found.get("value", "")
            self._at = {"area": found["name"]} if tag != "input" else {}
            self._choice = found["name"] if tag == "select" else None
        elif tag == "option" and self.forms:
            self._at = {"choice": "selected" in found}
        elif tag == "button" and self.forms:
            self._at = {"button": (found.get("name", ""), found.get("value", ""))}

    def handle_endtag(self, tag: str) -> None:
        self._at = {}
        self._silent = False

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        self.words += data
        if "link" in self._at:
            self.links[data] = self._at["link"]
        elif "area" in self._at and self._choice is None:
            self.forms[-1].fields[self._at["area"]] = data.removeprefix("\n")
        elif self._at.get("choice"):
            self.forms[-1].fields[self._choice or ""] = data
        elif "button" in self._at:
            self.forms[-1].buttons.append((*self._at["button"], data))

    def form(self, button: str, **having: str) -> tuple[Form, dict[str, str]]:
        """Return the form with a button of a label, and with certain values, and what pressing the button adds."""
        for form in self.forms:
            if all(form.fields.get(name) == value for name, value in having.items()):
                for name, value, label in form.buttons:
                    if label == button:
                        return form, {name: value} if name else {}
        raise AssertionError(f"no button {button!r} with {having}: {[form.buttons for form in self.forms]}")


class Hand:
    """Who plays."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.page: Page

    async def go(self, path: str) -> Page:
        self.page = Page(await self.http.get(path, headers=HTML, follow_redirects=True))
        return self.page

    async def press(self, button: str, written: dict[str, str] | None = None, /, **having: str) -> Page:
        """Press a button of the page, after having written something in its form."""
        form, pressed = self.page.form(button, **having)
        unknown = set(written or {}) - set(form.fields)
        assert not unknown, unknown
        body = {**form.fields, **pressed, **(written or {})}
        self.page = Page(await self.http.post(form.action, data=body, headers=HTML, follow_redirects=True))
        return self.page

    async def begin(self, env: str, split: str, index: int, **options: str) -> Page:
        await self.go(f"/play/worlds/{env}")
        written = {"split": split, "index": str(index), **{f"o.{name}": value for name, value in options.items()}}
        page = await self.press("Play it", written)
        assert page.path.startswith("/play/sessions/"), page.words
        return page

    async def say(self, text: str) -> Page:
        return await self.press("Do it", {"text": text})

    async def call(self, tool: str, **arguments: str) -> Page:
        return await self.press("Call it", {f"a.{name}": value for name, value in arguments.items()}, tool=tool)

    async def record(self) -> bytes:
        answer = await self.http.get(self.page.links["Download the record"])
        assert answer.status_code == 200
        assert "attachment" in answer.headers["content-disposition"]
        return answer.content


def winning(env: str, split: str, index: int, player: str = "oracle", **options: Any) -> tuple[list[Any], bytes]:
    """Return what a player who knows everything does, and the record of the same done by somebody who does not."""
    made = targets.make(env, **options)
    policy = policies.resolve(player, made.spec)()
    ref = TaskRef(split, index)
    seen = made.reset(ref)
    policy.reset(made.spec, made.task())
    policy.reveal(made.current)
    actions: list[Any] = []
    while made.ending is None:
        actions.append(policy.act(seen))
        seen = made.step(actions[-1]).observation
    return actions, by_program(env, split, index, actions, **options)


def by_program(env: str, split: str, index: int, actions: list[Any], **options: Any) -> bytes:
    """Return the record of actions in process; an episode that goes on is abandoned."""
    recorded = Recorded(registry.make_from(targets.spec_of(env), **options))
    recorded.reset(TaskRef(split, index))
    for action in actions:
        recorded.step(action)
    recorded.finish("abandoned")
    return recorded.to_bytes()
