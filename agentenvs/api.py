"""What authors of environments and players import: listed here, tested as exported, and versioned.

A name stays, and keeps its meaning, for as long as the first number of :data:`API_VERSION` does; a new name or
argument raises the second. Everything else in the package may change with any release.
"""

from agentenvs.core.actions import Action, Calls, End, Malformed, Message, ToolCall
from agentenvs.core.canon import JSON, digest
from agentenvs.core.environment import Environment
from agentenvs.core.errors import (
    AgentEnvsError,
    ConfigError,
    ContractError,
    DataError,
    MissingExtraError,
    OptionError,
    SplitError,
    UserError,
)
from agentenvs.core.observation import DataBlock, Observation, TextBlock
from agentenvs.core.policy import Policy, Privileged
from agentenvs.core.simple import Ended, Invalid, Script, world
from agentenvs.core.spec import Capabilities, EnvSpec, OptionSpec, SplitSpec, ToolSpec
from agentenvs.core.streams import Stream, scenario_key
from agentenvs.core.task import SECRET, Scenario, Task, TaskRef
from agentenvs.core.trace import Fact
from agentenvs.core.turn import Outcome, StepResult, TraceParts
from agentenvs.core.verdict import Ending, Verdict
from agentenvs_scoring.audits import Audit, Relation
from agentenvs_scoring.probes import Probe

API_VERSION = "1.2"

__all__ = [
    "API_VERSION",
    "JSON",
    "SECRET",
    "Action",
    "AgentEnvsError",
    "Audit",
    "Calls",
    "Capabilities",
    "ConfigError",
    "ContractError",
    "DataBlock",
    "DataError",
    "End",
    "Ended",
    "Ending",
    "EnvSpec",
    "Environment",
    "Fact",
    "Invalid",
    "Malformed",
    "Message",
    "MissingExtraError",
    "Observation",
    "OptionError",
    "OptionSpec",
    "Outcome",
    "Policy",
    "Privileged",
    "Probe",
    "Relation",
    "Scenario",
    "Script",
    "SplitError",
    "SplitSpec",
    "StepResult",
    "Stream",
    "Task",
    "TaskRef",
    "TextBlock",
    "ToolCall",
    "ToolSpec",
    "TraceParts",
    "UserError",
    "Verdict",
    "digest",
    "scenario_key",
    "world",
]
