"""Full-text search for worlds: BM25 in integers, the same everywhere, mapped from a file or built in memory.

    index = build([("a1", "the red door"), ("a2", "a red house with a door")])
    index.search("red house", k=2)     # [Hit(number=1, id='a2', score=…), Hit(number=0, id='a1', score=…)]
    index.digest                       # part of a world's identity
    index.save(path); Index.open(path) # one file, shared by memory map

:class:`Store` keeps documents beside it the same way, and :class:`FtsIndex` is the engine of SQLite behind the same
two methods, for where numpy's memory is too much; its results are its own.
"""

from agentenvs.core.search.building import Text, build, build_from_words
from agentenvs.core.search.fts import FtsIndex
from agentenvs.core.search.index import Hit, Index
from agentenvs.core.search.store import Store
from agentenvs.core.search.tokens import ENGLISH, ENGLISH_STOP_WORDS, Tokenizer

__all__ = [
    "ENGLISH",
    "ENGLISH_STOP_WORDS",
    "FtsIndex",
    "Hit",
    "Index",
    "Store",
    "Text",
    "Tokenizer",
    "build",
    "build_from_words",
]
