"""The recorded episodes of the original's text environment, and the real files they were played on."""

import gzip
import json
import os
from functools import cache
from pathlib import Path

DATA = Path(os.environ.get("AGENTENVS_TEST_DATA") or Path(__file__).parents[4] / "shared" / "data") / "webshop"
FILES = ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz", "items_human_ins.sample13.json.gz")
ABSENT = "the web shop's real files and recorded episodes are not in ../shared/data"


@cache
def recording():
    """Return the file of recorded episodes; None where it is absent."""
    path = DATA / "recorded-episodes.json.gz"
    return json.loads(gzip.decompress(path.read_bytes())) if path.is_file() else None


def folder(target):
    """Fill a folder with the real files, the recorded run's prices, and its goals as a split ``goals_recorded``."""
    (target / "items_shuffle_1000.json").write_text(json.dumps(products()))
    for name in FILES[1:]:
        (target / name).symlink_to(DATA / name)
    (target / "prices.json").write_text(json.dumps(recording()["prices"]))
    goals = [episode["goal"] for episode in recording()["episodes"]]
    (target / "goals_recorded.json").write_text(json.dumps(goals))
    return target


def listed(step):
    """Return what the search found, as the page of results says it: the total, and the ids of the page."""
    pieces = step["obs"].split(" [SEP] ")
    heading = next((piece for piece in pieces if piece.startswith("Page ") and "(Total results: " in piece), None)
    if heading is None:
        return None
    total = int(heading.rpartition(" ")[2].rstrip(")"))
    labels = step["actions"]["clickables"] if step["actions"] else []
    return [total, [label.upper() for label in labels if label not in ("back to search", "< prev", "next >")]]


def products():
    """Return the products, the options of each in the order in which the recorded pages show them.

    The handed file was written with sorted keys, which lost the order of options; nothing else tells it.
    """
    rows = json.loads(gzip.decompress((DATA / FILES[0]).read_bytes()))
    named = {row["asin"]: row for row in rows}
    for episode in recording()["episodes"]:
        for step in episode["ep"][1:]:
            asin = step["action"][6:-1].upper()
            if asin in named and step["obs"].endswith("Buy Now") and named[asin]["customization_options"]:
                pieces = step["obs"].split(" [SEP] ")
                options = named[asin]["customization_options"]
                order = sorted(options, key=lambda name: pieces.index(name.lower()) if options[name] else -1)
                named[asin]["customization_options"] = {name: options[name] for name in order}
    return rows
