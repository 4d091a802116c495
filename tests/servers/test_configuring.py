"""Where settings come from, which source goes first, and what is said of one that makes no sense."""

from __future__ import annotations

import pickle

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs_servers import configuring
from agentenvs_servers.settings import Place, Settings, documented

ALL = list(documented())


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    import os

    for name in [name for name in os.environ if name.upper().startswith(configuring.PREFIX)]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "server.toml"
        path.write_text(text)
        return path

    return write


def test_without_a_word_all_is_as_documented():
    assert configuring.read({}) == (Place(), Settings(), (), {})
    for one in ALL:
        assert one.takes(one.default), one.name
        assert one.said.endswith(".")


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(file, monkeypatch):
    path = file("max_batch = 1\nmax_group = 1\nmax_live = 1\n")
    monkeypatch.setenv("AGENTENVS_SERVE_MAX_BATCH", "2")
    monkeypatch.setenv("agentenvs_serve_max_group", "2")
    found = configuring.read({"max_batch": "3"}, path).settings
    assert (found.max_batch, found.max_group, found.max_live, found.max_episodes) == (3, 2, 1, 100_000)


def test_a_file_says_all_there_is_to_say(file):
    path = file(
        'envs = ["household", "room"]\nhost = "0.0.0.0"\nport = 0\njournal = "none"\nworkers = 2\ninsecure = true\n'
        'body_seconds = 3\nlog_format = "json"\naccess_log = true\nroute = "0a"\nmax_tenant_sessions = 5\n'
        "[options]\nlimit = 7\n"
    )
    place, settings, envs, options = configuring.read({}, path)
    assert place == Place("0.0.0.0", 0, "none", 2, True)
    assert (settings.body_seconds, type(settings.body_seconds)) == (3.0, float)
    assert (settings.log_format, settings.access_log, settings.route) == ("json", True, "0a")
    assert settings.max_tenant_sessions == 5
    assert (envs, options) == (("household", "room"), {"limit": 7})


@pytest.mark.parametrize("word", ["true", "1", "yes", "on"])
def test_a_truth_may_be_a_word(monkeypatch, word):
    monkeypatch.setenv("AGENTENVS_SERVE_ACCESS_LOG", word)
    assert configuring.read({}).settings.access_log


def test_the_tokens_of_a_file_go_before_the_one_of_the_variable():
    token = "a-token-of-many-characters"
    assert configuring.read({}, tokens=(token,)).settings.tokens == (token,)
    assert configuring.read({"token_file": "tokens"}, tokens=(token,)).settings.tokens == ()


WRONG = {
    "port": (["-1", "65536", "x", "8000.5", ""], "a whole number from 0 to 65,535"),
    "workers": (["0", "1025"], "a whole number from 1 to 1,024"),
    "max_sessions": (["0", "-3", "many", "1e400"], "a whole number, 1 or more"),
    "body_seconds": (["0", "nan", "inf", "-inf"], "a number, 0.001 or more"),
    "drain_seconds": (["-1", "3601"], "a number from 0 to 3,600"),
    "log_format": (["xml", "TEXT"], "text or json"),
    "access_log": (["maybe", "2"], "true or false"),
    "route": (["xyz", "0123456", "0A"], "a text like [0-9a-f]{0,6}"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (values, _) in WRONG.items() for value in values])
def test_a_value_that_cannot_be_is_told_with_its_origin(name, value, file, monkeypatch):
    allowed = WRONG[name][1]
    with pytest.raises(ConfigError) as caught:
        configuring.read({name: value})
    assert caught.value.what == f"the setting {name} is {value!r}"
    assert caught.value.why == f"it comes from the flag --{name.replace('_', '-')}; allowed is {allowed}"
    path = file(f'{name} = "{value}"\n')
    with pytest.raises(ConfigError, match=f"it comes from the file {path}"):
        configuring.read({}, path)
    monkeypatch.setenv(f"AGENTENVS_SERVE_{name.upper()}", value)
    with pytest.raises(ConfigError, match=f"it comes from the variable AGENTENVS_SERVE_{name.upper()}"):
        configuring.read({}, file(""))


@pytest.mark.parametrize(
    "line",
    ["max_sessions = true", "max_sessions = 2.5", "max_sessions = [1]", "access_log = 1", "body_seconds = false",
     "host = 5", "log_format = true", "max_batch = {a = 1}", "port = 1979-05-27"],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused(file, line):
    with pytest.raises(ConfigError, match=f"the setting {line.split()[0]} is .*\n.*allowed is"):
        configuring.read({}, file(line))


def test_a_value_that_cannot_be_is_refused_in_code_too():
    for name, (values, allowed) in WRONG.items():
        cls = Place if name in Place.__dataclass_fields__ else Settings
        with pytest.raises(ConfigError, match=f"the setting {name} is") as caught:
            cls(**{name: values[0]})
        assert allowed in caught.value.why
    with pytest.raises(ConfigError, match="max_sessions is True"):
        Settings(max_sessions=True)
    with pytest.raises(ConfigError, match="max_tenant_sessions is 0"):
        Settings(max_tenant_sessions=0)


def test_what_is_no_setting_is_an_error(file, monkeypatch):
    with pytest.raises(ConfigError, match="there is no setting 'max_sesions'") as caught:
        configuring.read({}, file("max_sesions = 3"))
    assert caught.value.fix == "did you mean max_sessions?"
    with pytest.raises(ConfigError, match="there is no setting 'tokens'"):
        configuring.read({}, file('tokens = ["a-token-of-many-characters"]'))
    monkeypatch.setenv("AGENTENVS_SERVE_URL_FILE", "url")
    configuring.read({}, others=("url_file",))
    with pytest.raises(ConfigError, match="there is no setting 'url_file'"):
        configuring.read({})
    monkeypatch.setenv("AGENTENVS_SERVE_COLOUR", "red")
    with pytest.raises(ConfigError, match="it comes from the variable AGENTENVS_SERVE_COLOUR"):
        configuring.read({}, others=("url_file",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "is no TOML"),
        ("envs = 3", "makes no sense"),
        ("envs = [3]", "makes no sense"),
        ("options = 3", "no sense"),
    ],
)
def test_a_file_that_makes_no_sense(file, text, said):
    with pytest.raises(ConfigError, match=said):
        configuring.read({}, file(text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        configuring.read({}, tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        configuring.read({}, tmp_path / "bytes.toml")


def test_settings_go_to_other_processes():
    settings = Settings(tokens=("a-token-of-many-characters",), max_batch=3)
    assert pickle.loads(pickle.dumps(settings)) == settings
