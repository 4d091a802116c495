"""The audit: does a reward hold against whoever wants it and not the task?

    report = agentenvs.audit_env("household", quick=True)
    print(report)

Hacks are played, anchors measured, the score mutated, records altered; each is a row of a table, with the most it may
earn and what it earned. :mod:`agentenvs_scoring.audits` has what an environment says of its own.
"""

from agentenvs.harness.audit.report import Report
from agentenvs.harness.audit.rows import Row
from agentenvs.harness.audit.run import audit_env

__all__ = ["Report", "Row", "audit_env"]
