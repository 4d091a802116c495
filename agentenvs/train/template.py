"""How a conversation becomes token ids, piece by piece.

A template writes increments: the beginning of a conversation, and what follows a turn of the policy up to where the
next begins. Ids that were sampled are never made again from text. For chat templates of Hugging Face the increments
are cut out of a rendered conversation once, and :func:`agrees` tells whether they add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentenvs.core.errors import ConfigError

_MARK = "\u2063mark\u2063"
_SEEN = "\u2063seen\u2063"


class Template(Protocol):
    """What a rollout needs of a tokenizer."""

    stop: tuple[int, ...]
    """Ids that end a turn; the first is the one that is forced where a turn is cut, and that ends a demonstration."""

    def begin(self, head: str, observation: str) -> list[int]:
        """Return the prefix of the first turn.

        Args:
            head: Instructions; left out where empty.
            observation: What is seen first.
        """

    def next(self, observation: str) -> list[int]:
        """Return what stands between the end of a turn and the beginning of the next."""

    def turn(self, text: str) -> list[int]:
        """Return the ids of a turn somebody else wrote, with its end."""

    def text(self, ids: Sequence[int]) -> str:
        """Return what a turn says, without its end."""


class PlainTemplate:
    """For tokenizers of :mod:`agentenvs.train.tokenizer`: one special token before each observation and each turn.

    Args:
        tokenizer: A Hugging Face tokenizer with the special tokens ``<seen>``, ``<act>`` and ``<end>``.

    Raises:
        ConfigError: It has not.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        found = [tokenizer.convert_tokens_to_ids(one) for one in ("<seen>", "<act>", "<end>")]
        if None in found or tokenizer.unk_token_id in found:
            raise ConfigError("the tokenizer has no <seen>, <act> and <end>", fix="name a chat template")
        self._seen, self._act, self._end = found
        self.stop: tuple[int, ...] = (self._end,)

    def begin(self, head: str, observation: str) -> list[int]:
        """See :class:`Template`."""
        return [*self._ids(head), *self.next(observation)]

    def next(self, observation: str) -> list[int]:
        """See :class:`Template`."""
        return [self._seen, *self._ids(observation), self._act]

    def turn(self, text: str) -> list[int]:
        """See :class:`Template`."""
        return [*self._ids(text), self._end]

    def text(self, ids: Sequence[int]) -> str:
        """See :class:`Template`."""
        kept = [one for one in ids if one != self._end]
        return str(self._tokenizer.decode(kept, skip_special_tokens=True))

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False)) if text else []


class ChatTemplate:
    """For tokenizers with a chat template.

    Args:
        tokenizer: A Hugging Face tokenizer.
        arguments: Of the template, such as ``{"enable_thinking": False}``.

    Raises:
        ConfigError: It has no template, or one whose conversations are no increments.
    """

    def __init__(self, tokenizer: Any, arguments: dict[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError("the tokenizer has no chat template", fix="choose the plain template")
        self._tokenizer = tokenizer
        self._arguments = arguments or {}
        rendered = self.render([_user("begin"), _assistant(_MARK), _user(_SEEN)], prompt=True)
        after = rendered.partition(_MARK)[2]
        end, found, between = self._cut(after)
        before, seen, behind = between.partition(_SEEN)
        if not found or not seen or _MARK not in rendered:
            raise ConfigError(
                "the chat template cannot be written in increments",
                why="a turn has no end, or what follows it is not repeated as it is",
                fix="choose the plain template, or another tokenizer",
            )
        self.stop: tuple[int, ...] = (end,)
        self._before, self._behind = before, behind

    def begin(self, head: str, observation: str) -> list[int]:
        """See :class:`Template`."""
        messages = [{"role": "system", "content": head}] if head else []
        return self._ids(self.render([*messages, _user(observation)], prompt=True))

    def next(self, observation: str) -> list[int]:
        """See :class:`Template`."""
        return self._ids(self._before + observation + self._behind)

    def turn(self, text: str) -> list[int]:
        """See :class:`Template`."""
        return [*self._ids(text), self.stop[0]]

    def text(self, ids: Sequence[int]) -> str:
        """See :class:`Template`."""
        kept = list(ids[:-1]) if ids and ids[-1] in self.stop else list(ids)
        return str(self._tokenizer.decode(kept, skip_special_tokens=False))

    def render(self, messages: Sequence[dict[str, str]], *, prompt: bool = False) -> str:
        """Return a whole conversation as the template writes it."""
        return str(
            self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=prompt, **self._arguments
            )
        )

    def _cut(self, after: str) -> tuple[int, bool, str]:
        """Find the special token a turn ends with."""
        specials = self._tokenizer.get_added_vocab()
        for word, number in sorted(specials.items(), key=lambda one: -len(one[0])):
            if after.startswith(word):
                return int(number), True, after[len(word) :]
        return 0, False, after

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def choose(kind: str, tokenizer: Any) -> Template:
    """Return a template by its name: ``plain``, ``chat``, or ``auto``: the tokenizer's own where it has one.

    Raises:
        ConfigError: There is none of that name, or it does not go with the tokenizer.
    """
    if kind not in {"auto", "plain", "chat"}:
        raise ConfigError(f"no template {kind!r}", fix="plain, chat or auto")
    chat = kind == "chat" or (kind == "auto" and getattr(tokenizer, "chat_template", None))
    return ChatTemplate(tokenizer) if chat else PlainTemplate(tokenizer)


def agrees(template: ChatTemplate, head: str, exchanges: Sequence[tuple[str, str]], last: str) -> bool:
    """Return whether increments add up to what the template renders of a whole conversation.

    Args:
        template: The template.
        head: Instructions.
        exchanges: Observation and turn, in order.
        last: The observation after them.
    """
    messages = [{"role": "system", "content": head}] if head else []
    ids: list[int] = []
    for observation, said in exchanges:
        ids += template.next(observation) if ids else template.begin(head, observation)
        ids += template.turn(said)
        messages += [_user(observation), _assistant(said)]
    ids += template.next(last) if ids else template.begin(head, last)
    whole = template.render([*messages, _user(last)], prompt=True)
    return bool(template._tokenizer.decode(ids, skip_special_tokens=False) == whole)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
