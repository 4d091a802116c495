"""What is made once and read by many: indexes, universes, catalogues, in folders that can be checked and moved.

An environment names what it needs as :class:`Item`: a name, a key that decides every byte, and a function that fills a
folder. :func:`folder` returns that folder to a running environment: out of a folder that ``agentenvs prepare`` wrote,
where one is given, else out of this user's cache, where it is made on first use. Each folder has a manifest with the
environment, its release, the key, and the size and digest of every file; what has another environment, release or key
is never used. In the cache, which this user has written, a file of another size is damaged; a folder that was given may
have come a long way, so each process reads every byte of an item there before it uses it first.

A folder is filled under another name and put in place by a rename, so that nobody sees half of one; of several
processes that need it, one makes it and the others wait. A folder that is there is only read: it may be mounted
read-only, be an image layer, or lie on a disk that several machines share.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agentenvs.core.canon import JSON, canonical_bytes, digest
from agentenvs.core.errors import DataError
from agentenvs.core.spec import EnvSpec, OptionSpec

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is done, and how much there is where that is known."""

VARIABLE = "AGENTENVS_PREPARED"
CACHE_VARIABLE = "AGENTENVS_CACHE"
MANIFEST = "agentenvs.json"
FORMAT = 1

OPTION = OptionSpec(
    "prepared",
    "str",
    None,
    f"folder that `agentenvs prepare` wrote (${VARIABLE} if set); else what is needed is made once in the cache",
    secret=True,
)
"""The option of every environment that has something to prepare."""

_PIECE = 1 << 20

_read: set[tuple[str, int, int]] = set()
"""What this process has read whole, of folders that were given: path, and time and number of its manifest."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is made once."""

    name: str
    """What it is, in small letters, e.g. ``universe``; stands in the folder's name."""
    key: Mapping[str, JSON]
    """All that decides its bytes beside the environment's id and release."""
    build: Callable[[Path, Progress], None]
    """Fills an empty folder."""


def folder(spec: EnvSpec, item: Item, given: str | None, progress: Progress | None = None) -> Path:
    """Return the folder of an item, made first where it may be.

    Args:
        spec: The environment that needs it.
        item: What it needs.
        given: The value of the option ``prepared``; where None, what ``$AGENTENVS_PREPARED`` says.
        progress: Is told how the making goes.

    Raises:
        DataError: It is not in the folder that was given, or is damaged there; or the cache cannot be written.
    """
    given = given or os.environ.get(VARIABLE)
    if not given:
        return make(spec, item, cache_folder(), progress)
    found = Path(given) / folder_name(spec, item)
    if _mark(found) not in _read:
        verify(spec, item, Path(given))
        if mark := _mark(found):
            _read.add(mark)
    return found


def demand(spec: EnvSpec, given: str | None) -> None:
    """Refuse a folder with nothing of an environment's release in it: a wrong path, an empty mount, an older version.

    Args:
        spec: The environment, which can make some items as it needs them, and so looks for them where they may not be.
        given: The value of the option ``prepared``; where None, what ``$AGENTENVS_PREPARED`` says.

    Raises:
        DataError: There is none, or it cannot be read.
    """
    given = given or os.environ.get(VARIABLE)
    if not given:
        return
    root = Path(given)
    try:
        held = list(_held(root)) if root.is_dir() else []
        for path in sorted(root.iterdir()) if root.is_dir() and not held else ():
            with suppress(FileNotFoundError, NotADirectoryError):
                (path / MANIFEST).open("rb").close()  # or it says why nothing was found
    except OSError as error:
        raise _unreadable(root, error) from error
    if not any((manifest["env"], manifest["release"]) == (spec.id, spec.release) for manifest in held):
        raise _absent(spec, None, root)


def make(spec: EnvSpec, item: Item, root: Path, progress: Progress | None = None, *, verified: bool = False) -> Path:
    """Return the folder of an item below a root, made there where it is not, or is not whole.

    Args:
        spec: The environment that needs it.
        item: What it needs.
        root: Where it is, or is made.
        progress: Is told how the making goes.
        verified: Read every byte of what is there, instead of sizes.

    Raises:
        DataError: The root cannot be written.
    """
    target = root / folder_name(spec, item)
    is_whole = _is_verified if verified else _is_whole
    if is_whole(spec, item, target):
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f".{target.name}.lock"):
            if not is_whole(spec, item, target):  # else somebody made it while this one waited
                _fill(spec, item, target, progress or _silent)
    except OSError as error:
        raise DataError(
            f"{root} cannot be written",
            why=f"{error.strerror or error}: {error.filename}" if error.filename else str(error),
            fix=f"prepare it elsewhere (agentenvs prepare {spec.slug} --out DIR, then -o prepared=DIR), "
            f"or set {CACHE_VARIABLE} to a folder that can be written",
        ) from error
    return target


def verify(spec: EnvSpec, item: Item, root: Path) -> Path:
    """Read every byte of an item's folder and return it.

    Raises:
        DataError: It is not there, cannot be read, or a file is not what was written.
    """
    found = root / folder_name(spec, item)
    try:
        if not found.is_dir():
            raise _absent(spec, item, root)
        manifest = _check(spec, item, found)
        for name, (_, wanted) in manifest["files"].items():
            if _sha256(found / name) != wanted:
                raise _damaged(spec, found, f"{name} has another digest")
    except OSError as error:
        raise _unreadable(root, error) from error
    return found


def folder_name(spec: EnvSpec, item: Item) -> str:
    """Return the name of an item's folder: another for another environment, release or key."""
    return f"{spec.slug}-{item.name}-{digest(_identity(spec, item))[:20]}"


def size(folder: Path) -> int:
    """Return how many bytes the files of an item's folder have."""
    files: Mapping[str, tuple[int, str]] = json.loads((folder / MANIFEST).read_bytes())["files"]
    return sum(length for length, _ in files.values())


def cache_folder() -> Path:
    """Return the folder of this user's caches on this platform: ``$AGENTENVS_CACHE`` where that is set.

    Raises:
        RuntimeError: There is no home folder.
    """
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "agentenvs"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "agentenvs" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "agentenvs"
    return Path.home() / ".cache" / "agentenvs"


def _identity(spec: EnvSpec, item: Item) -> dict[str, JSON]:
    return {"format": FORMAT, "env": spec.id, "release": spec.release, "name": item.name, "key": dict(item.key)}


def _fill(spec: EnvSpec, item: Item, target: Path, progress: Progress) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        item.build(part, progress)
        files = {name: [(part / name).stat().st_size, _sha256(part / name)] for name in _names(part)}
        (part / MANIFEST).write_bytes(canonical_bytes({**_identity(spec, item), "files": files}))
        if target.exists():  # damaged: whoever has it open keeps what he has
            shutil.rmtree(target)
        try:
            part.rename(target)
        except OSError:  # where there is no lock, somebody else may have been first
            if not _is_whole(spec, item, target):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _is_whole(spec: EnvSpec, item: Item, target: Path) -> bool:
    try:
        _check(spec, item, target)
    except (DataError, PermissionError):
        return False
    return True


def _is_verified(spec: EnvSpec, item: Item, target: Path) -> bool:
    try:
        verify(spec, item, target.parent)
    except DataError:
        return False
    return True


def _check(spec: EnvSpec, item: Item, found: Path) -> dict[str, JSON]:
    """Return the manifest of a folder that has all its files, each of its size.

    Raises:
        DataError: It has not.
        PermissionError: It may not be read.
    """
    try:
        manifest: dict[str, JSON] = json.loads((found / MANIFEST).read_bytes())
        files = manifest.pop("files")
        lengths = {name: (found / name).stat().st_size for name in files}
    except PermissionError:
        raise
    except OSError as error:
        raise _damaged(spec, found, f"{error.strerror}: {error.filename}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(spec, found, f"{MANIFEST} is no manifest: {error!r}") from error
    if manifest != _identity(spec, item):
        raise _damaged(spec, found, "its manifest is of something else")
    if odd := sorted(name for name, (length, _) in files.items() if lengths[name] != length):
        raise _damaged(spec, found, f"{odd[0]} has {lengths[odd[0]]} bytes, not {files[odd[0]][0]}")
    return {**manifest, "files": files}


def _damaged(spec: EnvSpec, found: Path, why: str) -> DataError:
    return DataError(
        f"{found} is damaged", why=why, fix=f"remove it and run agentenvs prepare {spec.slug} --out {found.parent}"
    )


def _unreadable(root: Path, error: OSError) -> DataError:
    return DataError(
        f"{error.filename or root} cannot be read",
        why=error.strerror or str(error),
        fix=f"chmod -R a+rX {root}: a server in a container is another user" if os.name == "posix" else "",
    )


def _absent(spec: EnvSpec, item: Item | None, root: Path) -> DataError:
    """Say what is wrong with a folder that does not hold an item, or anything of this release where there is none."""
    fix = f"agentenvs prepare {spec.slug} --out {root}, with the same options"
    name = "things" if item is None else item.name
    if not root.is_dir():
        return DataError(f"there is no folder {root}", why=f"{spec.id} looks there for its {name}", fix=fix)
    held = list(_held(root))
    what = f"{root} does not hold the {name} that {spec.id} needs"
    if not held:
        return DataError(what, why="nothing was prepared there", fix=fix)
    same = [manifest for manifest in held if manifest["env"] == spec.id]
    if not same:
        return DataError(what, why=f"it was prepared for {', '.join(_values(held, 'env'))}", fix=fix)
    if item is None or all(manifest["release"] != spec.release for manifest in same):
        others = ", ".join(_values(same, "release"))
        return DataError(what, why=f"it was prepared by release {others}; this is {spec.release}", fix=fix)
    keys = "; ".join(canonical_bytes(manifest["key"]).decode() for manifest in same[:3])
    return DataError(what, why=f"wanted: {canonical_bytes(dict(item.key)).decode()}; there are: {keys}", fix=fix)


def _held(root: Path) -> Iterator[dict[str, JSON]]:
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        if path.parent.name.startswith("."):  # is being filled, or was when somebody was killed
            continue
        with suppress(OSError, ValueError):
            manifest = json.loads(path.read_bytes())
            if isinstance(manifest, dict) and {"env", "release", "key"} <= manifest.keys():
                yield manifest


def _values(held: Iterable[Mapping[str, JSON]], name: str) -> list[str]:
    return sorted({str(manifest[name]) for manifest in held})


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            total.update(piece)
    return total.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process, and thread, at a time go on; where the platform has no such lock, two may do the same work."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # who waits for it looks again before doing anything


def _mark(found: Path) -> tuple[str, int, int] | None:
    try:
        seen = (found / MANIFEST).stat()
    except OSError:
        return None
    return str(found), seen.st_mtime_ns, seen.st_ino


def _silent(what: str, done: int, total: int | None) -> None:
    return None
