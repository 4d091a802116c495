"""No log says the name of a session, whatever level somebody sets."""

import logging

import agentenvs
from agentenvs.client import ClientSettings
from agentenvs_servers.run import background


def test_no_log_holds_the_name_of_a_session(caplog):
    with caplog.at_level(logging.DEBUG), background(["household"]) as url:
        settings = ClientSettings(wire="http")
        with agentenvs.make("household", url=url, settings=settings) as env:
            env.reset()
            path = env._session._record_path
            env.step("look")
    secret = path.rpartition("/")[2]
    assert len(secret) > 40
    assert secret not in caplog.text
