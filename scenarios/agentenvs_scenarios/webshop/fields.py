"""Fields of a record of the field's files, read as what they must be; what they are not is said in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from agentenvs.core.canon import clean_text
from agentenvs_scenarios.webshop.files import unusable

Form: TypeAlias = Mapping[str, Any]

_NAMES: Final = {
    "NoneType": "empty", "bool": "a yes or no", "int": "a number", "float": "a number", "str": "a text",
    "list": "a list", "dict": "a table",
}  # fmt: skip


@contextmanager
def reading(path: Path, name: str) -> Iterator[None]:
    """Read a record: what is wrong with it is told with its name and its file.

    Args:
        path: The file it stands in.
        name: What the record is called in messages.

    Raises:
        DataError: Reading raised a :class:`ValueError`.
    """
    try:
        yield
    except ValueError as error:
        raise unusable(path, f"{name}: {error}") from error


def text(form: Form, key: str, default: str | None = None) -> str:
    """Return a field that must be a text.

    Args:
        form: The record.
        key: Name of the field.
        default: Stands where the field is empty or missing; None where it must be there.

    Raises:
        ValueError: It is missing, or something else.
    """
    value = form.get(key)
    if value is None:
        if default is not None:
            return default
        raise ValueError(f"{key} is {'empty' if key in form else 'missing'}")
    if not isinstance(value, str):
        raise wrong(key, value, "a text")
    return clean_text(value)


def texts(form: Form, key: str) -> tuple[str, ...]:
    """Return a field that must be a list of texts; nothing where it is empty or missing.

    Raises:
        ValueError: It is something else.
    """
    value = form.get(key)
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise wrong(key, value, "a list")
    for item in value:
        if not isinstance(item, str):
            raise wrong(f"something in {key}", item, "a text")
    return tuple(clean_text(item) for item in value)


def table(value: Any, name: str) -> Form:
    """Return a value that must be a table; an empty one where it is empty.

    Raises:
        ValueError: It is something else.
    """
    if value is None or value == "" or value == []:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(name, value, "a table")
    return value


def rows(value: Any, name: str) -> list[Form]:
    """Return a value that must be a list of tables; an empty one where it is empty.

    Raises:
        ValueError: It is something else.
    """
    if value is None or value == "":
        return []
    if not isinstance(value, list):
        raise wrong(name, value, "a list")
    for item in value:
        if not isinstance(item, Mapping):
            raise wrong(f"something in {name}", item, "a table")
    return value


def wrong(name: str, value: Any, wanted: str) -> ValueError:
    """Word the one message for a value that is something else."""
    kind = type(value).__name__
    return ValueError(f"{name} is {_NAMES.get(kind, kind)}, not {wanted}")
