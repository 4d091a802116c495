"""``python -m agentenvs.cli``."""

from agentenvs.cli.main import main

main()
