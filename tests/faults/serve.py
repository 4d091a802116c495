"""The command line of ``agentenvs`` with the fixtures in it; waits for a line on its standard input before it begins.

So that the next server is imported already when the last one is killed: most of a restart is imports.
"""

from __future__ import annotations

import os

from tests.envs.fixtures import register_fixtures
from tests.servers import rooms

# Not under the guard below: the workers of a server import this module too, and must know the fixtures.
register_fixtures()
rooms.register()

if __name__ == "__main__":
    import agentenvs_servers.run  # noqa: F401
    from agentenvs.cli.main import main

    os.read(0, 1)
    main()
