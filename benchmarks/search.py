"""How fast searches are: building an index, its memory, and queries, beside other engines where they are installed.

Documents are made from a seed: words whose frequencies fall as in a language (one over the rank), a name of its own in
each, 80 words each (60 at a million). Queries are of four kinds in equal parts: a name; three frequent words and a rare
one; six words as they come; ten words as they come. Every engine runs in a process of its own; build time is the CPU
time of that process, query time that of its thread, the best of three rounds for each query; memory is the most the
process held beyond what it held before it began to build. ``exact`` counts the queries whose ten best are those of
adding up every score, equal ones in the order of their numbers.

    python benchmarks/search.py                       # 5,000 and 50,000 documents
    python benchmarks/search.py --sizes 1000000       # a million; about two minutes and 1.5 GB
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentenvs.core.streams import Stream

ENGINES = ("agentenvs", "mapped", "fts5", "tantivy", "bm25s")
KIND_NAMES = ("name", "frequent", "six words", "ten words")
QUERIES = 200
ROUNDS = 3
_VOCABULARY, _POOL = 60_000, 2_000_000


class Corpus:
    """Documents and queries of a size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.length = 60 if size >= 1_000_000 else 80
        stream = Stream(bytes(32), "benchmark")
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(stream.choice(letters) for _ in range(stream.between(3, 9))) for _ in range(_VOCABULARY)]
        sums = list(itertools.accumulate(1_000_000_000 // (rank + 3) for rank in range(_VOCABULARY)))
        self.pool = _drawn(self.words, sums, stream)
        self.starts = [stream.below(_POOL - self.length) for _ in range(65_537)]
        self.queries = [self._query(number, stream) for number in range(QUERIES)]

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield ids and texts."""
        for number in range(self.size):
            start = self.starts[number % 65_537] ^ (number // 65_537)
            yield f"d{number}", f"name{number} " + " ".join(self.pool[start : start + self.length])

    def _query(self, number: int, stream: Stream) -> str:
        kind = number % 4
        if kind == 0:
            return f"name{stream.below(self.size)}"
        if kind == 1:
            return " ".join([*self.words[:3], self.words[stream.below(5_000)]])
        return " ".join(stream.choice(self.pool) for _ in range(6 if kind == 2 else 10))


def _drawn(words: list[str], sums: list[int], stream: Stream) -> list[str]:
    import bisect

    return [words[bisect.bisect_right(sums, stream.below(sums[-1]))] for _ in range(_POOL)]


def own(corpus: Corpus, mapped: bool) -> Callable[[str], list[int]]:
    """Return the search of the own engine."""
    from agentenvs.core.search import Index, build

    index = build(corpus.documents())
    if mapped:
        path = Path(tempfile.mkdtemp()) / "index"
        index.save(path)
        index = Index.open(path)
    return lambda query: [hit.number for hit in index.search(query, 10)]


def fts5(corpus: Corpus) -> Callable[[str], list[int]]:
    """Return the search of SQLite."""
    from agentenvs.core.search import FtsIndex

    index = FtsIndex.build(corpus.documents())
    return lambda query: [hit.number for hit in index.search(query, 10)]


def tantivy(corpus: Corpus) -> Callable[[str], list[int]]:
    """Return the search of tantivy."""
    import tantivy as engine

    schema = engine.SchemaBuilder().add_integer_field("number", stored=True).add_text_field("text").build()
    index = engine.Index(schema)
    writer = index.writer(num_threads=1)
    for number, (_, text) in enumerate(corpus.documents()):
        writer.add_document(engine.Document(number=number, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[int]:
        hits = searcher.search(index.parse_query(query, ["text"]), 10).hits
        return [searcher.doc(address)["number"][0] for _, address in hits]

    return search


def bm25s(corpus: Corpus) -> Callable[[str], list[int]]:
    """Return the search of bm25s."""
    import bm25s as engine

    texts = [text for _, text in corpus.documents()]
    retriever = engine.BM25(method="lucene")
    retriever.index(engine.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)

    def search(query: str) -> list[int]:
        tokens = engine.tokenize([query], stopwords=None, show_progress=False)
        found, _ = retriever.retrieve(tokens, k=10, show_progress=False)
        return [int(number) for number in found[0]]

    return search


def measure(engine: str, size: int) -> dict[str, Any]:
    """Return the figures of one engine."""
    corpus = Corpus(size)
    before, start = _peak(), time.process_time()
    search = _make(engine, corpus)
    build, memory = time.process_time() - start, _peak() - before
    times: list[float] = [min(_timed(search, query) for _ in range(ROUNDS)) for query in corpus.queries]
    row: dict[str, Any] = {"engine": engine, "size": size, "build_s": build, "memory_mb": memory}
    for kind, name in enumerate(KIND_NAMES):
        row[name] = sum(times[kind::4]) / len(times[kind::4])
    ordered = sorted(times)
    return {**row, "median": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}


def _make(engine: str, corpus: Corpus) -> Callable[[str], list[int]]:
    if engine in ("agentenvs", "mapped"):
        return own(corpus, engine == "mapped")
    makers: dict[str, Callable[[Corpus], Callable[[str], list[int]]]] = {
        "fts5": fts5,
        "tantivy": tantivy,
        "bm25s": bm25s,
    }
    return makers[engine](corpus)


def _timed(search: Callable[[str], list[int]], query: str) -> float:
    start = time.thread_time()
    search(query)
    return (time.thread_time() - start) * 1000


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def exact(size: int) -> str:
    """Return for how many queries the own engine finds what adding up every score finds."""
    import numpy as np

    from agentenvs.core.search import build

    corpus = Corpus(size)
    index = build(corpus.documents())
    same = 0
    for query in corpus.queries:
        scores = index.scores(query)
        order = np.lexsort((np.arange(size), -scores))[:10]
        wanted = [(int(number), int(scores[number])) for number in order if scores[number]]
        same += wanted == [(hit.number, hit.score) for hit in index.search(query, 10)]
    return f"{same} of {len(corpus.queries)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--one", action="store_true", help="measure here and print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.engines[0], arguments.sizes[0])))
        return
    names = ("build_s", "memory_mb", *KIND_NAMES, "median", "p99")
    print(f"{'documents':>10} {'engine':>10} " + " ".join(f"{name:>10}" for name in names))
    for size in arguments.sizes:
        for engine in arguments.engines:
            if engine in ("tantivy", "bm25s") and importlib.util.find_spec(engine) is None:
                print(f"{size:>10} {engine:>10} not installed")
                continue
            command = [sys.executable, __file__, "--one", "--sizes", str(size), "--engines", engine]
            ran = subprocess.run(command, capture_output=True, text=True, check=True, env=_one_core())
            row = json.loads(ran.stdout)
            print(f"{size:>10} {engine:>10} " + " ".join(f"{row[name]:>10.3f}" for name in names), flush=True)
        if size <= 100_000:
            print(f"{size:>10} exact: {exact(size)}")


def _one_core() -> dict[str, str]:
    roots = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": roots, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


if __name__ == "__main__":
    main()
