"""No log says the name of a session, whatever level somebody sets."""

import logging

import pytest

import agentenvs
from agentenvs.client import ClientSettings
from agentenvs_servers.names import Names
from agentenvs_servers.run import background

SECRET = "s3cr3t" * 7 + "x"


@pytest.mark.parametrize("wire", ["http", "socket"])
def test_no_log_holds_the_name_of_a_session(caplog, monkeypatch, wire):
    monkeypatch.setattr(Names, "session", lambda self: f"{self.route}.s.{SECRET}")
    with (
        caplog.at_level(logging.DEBUG),
        background(["household"]) as url,
        agentenvs.make("household", url=url, settings=ClientSettings(wire=wire)) as env,
    ):
        env.reset()
        assert env.step("look").observation.text
    assert caplog.records
    assert [record for record in caplog.records if SECRET in record.getMessage()] == []
