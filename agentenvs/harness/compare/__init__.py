"""Runs against each other: whether they may be compared, scenario by scenario, and what that shows.

grounds.py      why two runs cannot be compared, and what differs in their manifests
pairing.py      the same scenario, played by each
comparison.py   rates, differences, intervals, tests, ranks
tables.py       the same for a terminal
page.py         the same as one page with plots
"""

from agentenvs.harness.compare.comparison import Comparison, Difference, compare
from agentenvs.harness.compare.grounds import Reason, reasons
from agentenvs.harness.compare.page import write_page

__all__ = ["Comparison", "Difference", "Reason", "compare", "reasons", "write_page"]
