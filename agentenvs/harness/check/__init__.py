"""The conformance check: does an environment hold what its spec declares, and what is lost by what it does not?

    report = agentenvs.check_env("household")        # an id, a class, "module:Class"
    print(report)

The checks stand in modules by theme; each is a generator of faults over a :class:`Subject`.
"""

from agentenvs.harness.check.findings import Fault, Finding
from agentenvs.harness.check.report import Report, Use
from agentenvs.harness.check.run import CHECKS, check_env

__all__ = ["CHECKS", "Fault", "Finding", "Report", "Use", "check_env"]
