"""Calibration: what anchor policies reach on every split, written down with digests, so that a moved band is seen.

plan.py       what is measured: by the card, or as every environment is
measuring.py  plays it, on several processes
results.py    from episodes to bands, models, saturation
moved.py      a measurement held against a card
writing.py    the measured part of a card as TOML
"""

from agentenvs.harness.calibrate.measuring import Measured, measure
from agentenvs.harness.calibrate.moved import Moved, moved
from agentenvs.harness.calibrate.plan import Row, rows
from agentenvs.harness.calibrate.results import band, model_row, saturated
from agentenvs.harness.calibrate.writing import card_path, written

__all__ = [
    "Measured",
    "Moved",
    "Row",
    "band",
    "card_path",
    "measure",
    "model_row",
    "moved",
    "rows",
    "saturated",
    "written",
]
