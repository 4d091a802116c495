"""How fast the search worlds are: building universes, asking questions, searching, stepping, opening what is cached.

Every figure is CPU time of one process; universes are built in a process of their own each, whose peak memory is
reported too. bm25s and tantivy, where they are installed, and SQLite index and search the same. Questions are timed
with every gate, over whole decks; steps are walks of searches, articles and an answer, recorded first and played
again, the best of several rounds. PhantomWiki (``pw-generate`` and Prolog on the path) is run beside, where it is
installed, which takes minutes.

    python benchmarks/searchworld.py
    python benchmarks/searchworld.py --sizes 500 5000        # without the large one
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from agentenvs.core import prepared, registry
from agentenvs.core.environment import Environment
from agentenvs.core.search import FtsIndex
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.searchworld import holdings, propose
from agentenvs.envs.searchworld.holdings import Place
from agentenvs.envs.searchworld.library import TOKENIZER, Library
from agentenvs.envs.searchworld.spec import SPEC

ROUNDS = 5
SIZES = (500, 5_000, 50_000)
_AIMS = {"build": {50_000: "<= 4"}, "memory": {50_000: "<= 400"}, "search": {5_000: "<= 0.15", 50_000: "<= 0.8"}}


class Row(NamedTuple):
    """One line of the table."""

    name: str
    value: float
    unit: str
    aim: str


def build(people: int) -> list[Row]:
    """Return what it costs to build a universe with its articles and index, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--build", str(people)], capture_output=True, text=True, check=True, env=os.environ
    )
    seconds, megabytes = json.loads(done.stdout)
    return [
        Row(f"build {people:,} people, articles, index", seconds, "CPU s", _AIMS["build"].get(people, "-")),
        Row(f"peak memory of that process, {people:,}", megabytes, "MB", _AIMS["memory"].get(people, "-")),
    ]


def _build_here(people: int) -> None:
    start = time.process_time()
    held = holdings._opened(SPEC, Place("train", 0, people), None)
    if len(held.library) <= people:
        raise SystemExit("the universe is too small")
    seconds = time.process_time() - start
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def asking(people: int) -> list[Row]:
    """Return what gated questions of eight hops and of the usual mix cost."""
    rows = []
    holdings.universe(SPEC, Place("train", 0, people), None)
    for difficulty, name in (("hard", "8 to 12 hops"), ("mixed", "mixed")):
        seconds = []
        for index in range(300):
            start = time.process_time()
            made = propose.proposal(SPEC, "train", index, people, difficulty, None)
            if difficulty == "mixed" or made.card.hops == 8:
                seconds.append(time.process_time() - start)
        title = "8 hops" if difficulty == "hard" else name
        aim = "<= 20" if difficulty == "hard" else "-"
        rows.append(Row(f"gated question, {title}, {people:,} people", 1e3 * sum(seconds) / len(seconds), "ms", aim))
    return rows


def searching(people: int) -> Row:
    """Return what a search costs: half for questions as they stand, half for names."""
    library = holdings.universe(SPEC, Place("train", 0, people), None).library
    queries = _queries(library, people)
    best = min(_searched(library, queries) for _ in range(ROUNDS))
    return Row(f"search, {len(library):,} articles", 1e3 * best / len(queries), "ms", _AIMS["search"].get(people, "-"))


def _queries(library: Library, people: int) -> list[str]:
    stream = Stream(scenario_key("searchworld", "benchmark", people), "queries")
    names = [library.title(stream.below(len(library))) for _ in range(150)]
    made = (propose.proposal(SPEC, "train", index, people, "mixed", None) for index in range(150))
    return [*names, *(proposal.scenario.question.sentence for proposal in made)]


def _searched(library: Any, queries: list[str]) -> float:
    start = time.process_time()
    for query in queries:
        library.look_for(query[:200], 5)
    return time.process_time() - start


def stepping(people: int, count: int = 40) -> list[Row]:
    """Return steps a CPU second, and what a reset of a kept scenario and a fork cost."""
    env = registry.make("searchworld", people=str(people))
    walks = [_walk(env, TaskRef("train", index)) for index in range(count)]
    best = min(_played(env, walks) for _ in range(ROUNDS))
    steps = sum(len(actions) for _, actions in walks)
    start = time.process_time()
    for ref, _ in walks:
        env.reset(ref)
    reset = (time.process_time() - start) / count
    start = time.process_time()
    for _ in range(1000):
        env.fork()
    return [
        Row(f"steps, {people:,} people", steps / best, "/CPU s", ">= 4,000"),
        Row(f"reset of a kept scenario, {people:,}", 1e6 * reset, "µs", "-"),
        Row(f"fork, {people:,}", 1e3 * (time.process_time() - start), "µs", "-"),
    ]


def _walk(env: Environment, ref: TaskRef) -> tuple[TaskRef, list[Any]]:
    """Return a walk as an agent's: searches for names in what was read, articles, junk now and then, an answer."""
    stream = Stream(scenario_key("searchworld", "benchmark", ref.index), "walk")
    seen, actions = env.reset(ref).text, []
    while env.ending is None and len(actions) < 24:
        words = seen.replace("[", " ").replace("]", " ").split()
        some = " ".join(stream.sample(words, min(3, len(words))))
        kind = stream.below(10)
        if kind < 5:
            action: Any = {"tool": "search", "arguments": {"query": some, "k": 5}}
        elif kind < 9 and "1. [" in seen:
            action = {"tool": "read", "arguments": {"article": seen.partition("[")[2][:6]}}
        else:
            action = f"<search>{some}</search>" if kind < 9 else "look around"
        actions.append(action)
        seen = env.step(action).observation.text or seen
    actions.append("answer: Nobody")
    return ref, actions


def _played(env: Environment, walks: list[tuple[TaskRef, list[Any]]]) -> float:
    seconds = 0.0
    for ref, actions in walks:
        env.reset(ref)
        start = time.process_time()
        for action in actions:
            env.step(action)
        seconds += time.process_time() - start
    return seconds


def opening(people: int) -> Row:
    """Return what it costs to open a cached universe, up to its first search and article."""
    place = Place("train", 3, people)
    with tempfile.TemporaryDirectory() as folder:
        prepared.make(SPEC, holdings.item(place), Path(folder))
        best = min(_opened(place, folder) for _ in range(ROUNDS))
    return Row(f"open a cached universe, {people:,} people", 1e3 * best, "ms", "<= 50")


def _opened(place: Place, folder: str) -> float:
    start = time.process_time()
    library = holdings._opened(SPEC, place, folder).library
    library.text(library.look_for("silver", 1)[0].number)
    return time.process_time() - start


def rivals(people: int) -> list[Row]:
    """Return what building an index of the same articles and the same searches cost with other engines."""
    library = holdings.universe(SPEC, Place("train", 0, people), None).library
    texts = [f"{library.title(number)}\n{library.text(number)}" for number in range(len(library))]
    queries = _queries(library, people)
    engines = (("FTS5 of SQLite", "sqlite3", _fts5), ("bm25s", "bm25s", _bm25s), ("tantivy", "tantivy", _tantivy))
    rows = []
    for name, module, make in engines:
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not installed, not measured", file=sys.stderr)
            continue
        start = time.process_time()
        find = make(texts)
        built = time.process_time()
        for query in queries:
            find(query[:200])
        searched = time.process_time()
        rows.append(Row(f"{name}: index, {len(texts):,} articles", built - start, "CPU s", "-"))
        rows.append(Row(f"{name}: search", 1e3 * (searched - built) / len(queries), "ms", "-"))
    return rows


def _fts5(texts: list[str]) -> Callable[[str], Any]:
    index = FtsIndex.build(((str(number), text) for number, text in enumerate(texts)), tokenizer=TOKENIZER)
    return lambda query: index.search(query, 5)


def _bm25s(texts: list[str]) -> Callable[[str], Any]:
    import bm25s

    def cut(rows: list[str]) -> Any:
        return [TOKENIZER.terms(row) for row in rows]

    index = bm25s.BM25()
    index.index(cut(texts), show_progress=False)
    return lambda query: index.retrieve(cut([query]), k=5, show_progress=False, n_threads=0)


def _tantivy(texts: list[str]) -> Callable[[str], Any]:
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("text", stored=False).add_integer_field("id", stored=True).build()
    index = tantivy.Index(schema)
    writer = index.writer(num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, id=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def find(query: str) -> Any:
        wanted = index.parse_query(" ".join(TOKENIZER.terms(query)), ["text"])
        return [searcher.doc(address)["id"] for _, address in searcher.search(wanted, 5).hits]

    return find


def peers(program: str | None) -> list[Row]:
    """Return what PhantomWiki costs: universes and questions, the latter in two minutes at a depth of 20."""
    if program is None:
        print("phantom-wiki: not installed, not measured", file=sys.stderr)
        return []
    rows = []
    for trees, depth in ((2, 6), (2, 20), (200, 6)):
        with tempfile.TemporaryDirectory() as folder:
            given = {"-od": folder, "-s": 1, "--question-depth": depth, "--num-family-trees": trees}
            words = [str(word) for pair in given.items() for word in pair]
            process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == 0:
            name = f"phantom-wiki, {25 * trees:,} people, depth {depth}"
            rows.append(Row(name, usage.ru_utime + usage.ru_stime, "CPU s", "-"))
            rows.append(Row(f"peak memory of that process, depth {depth}", usage.ru_maxrss / 1024, "MB", "-"))
    return rows


def measure(sizes: list[int]) -> list[Row]:
    """Return all rows."""
    rows: list[Row] = []
    for people in sizes:
        rows += build(people)
        rows += asking(people)
        rows.append(searching(people))
        rows += stepping(people)
        rows.append(opening(people))
        rows += rivals(people)
    return [*rows, *peers(shutil.which("pw-generate"))]


def show(rows: list[Row]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"search worlds, Python {platform.python_version()}, one core, CPU time")
    for heading, justify in (("figure", "left"), ("measured", "right"), ("unit", "left"), ("aim", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row.name, f"{row.value:,.3f}" if row.value < 100 else f"{row.value:,.0f}", row.unit, row.aim)
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="people of the universes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--build", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        _build_here(args.build)
        return
    rows = measure(args.sizes)
    if args.json:
        print(json.dumps([row._asdict() for row in rows]))
    else:
        show(rows)


if __name__ == "__main__":
    main()
