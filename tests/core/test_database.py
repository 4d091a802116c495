"""Who keeps something in a database says what, and has its opening, its migrations and its messages."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from agentenvs.core.database import Kept, shown
from agentenvs.core.errors import ConfigError, DataError

_ENV = "from agentenvs.core.database import run_migrations\nif __name__ == 'env_py':\n    run_migrations()\n"
_FIRST = """import sqlalchemy as sa
from alembic import op
revision, down_revision = "0001", None
def upgrade():
    op.create_table("notes", sa.Column("text", sa.Text()))
"""

_metadata = sa.MetaData()
_notes = sa.Table("notes", _metadata, sa.Column("text", sa.Text()))


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    folder = tmp_path / "100%"  # alembic's configuration would take a % for its own
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text(_ENV)
    (folder / "versions" / "v1.py").write_text(_FIRST)
    return Kept("pile of notes", "--notes", _metadata, folder, lock=1, version_table="notes_version")


def test_what_was_kept_is_there_again(kept: Kept, tmp_path: Path) -> None:
    for _ in range(2):
        with kept.opened(str(tmp_path / "new" / "n.db")) as engine, engine.begin() as connection:
            kept.lock_writers(connection)
            connection.execute(sa.insert(_notes).values(text="a"))
            found = list(connection.execute(sa.select(_notes)).scalars())
    assert found == ["a", "a"]


def test_a_file_of_something_else_is_left_alone(kept: Kept, tmp_path: Path) -> None:
    other = sa.create_engine(f"sqlite:///{tmp_path / 'o.db'}")
    with other.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE precious (a)")
    said = r"(?s)is no pile of notes.*it holds .precious..*another --notes"
    with pytest.raises(DataError, match=said), kept.opened(str(tmp_path / "o.db")):
        pass
    with other.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["precious"]


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", "://", "sqlite:///:memory:"])
def test_an_address_that_is_none_is_a_mistake(kept: Kept, url: str) -> None:
    with pytest.raises(ConfigError, match="pile of notes"), kept.opened(url):
        pass


def test_a_folder_for_a_file_is_a_mistake(kept: Kept, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be used"), kept.opened(str(tmp_path)):
        pass


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in shown("postgresql://me:hunter2@host/db")
    assert shown("://") == "(not a URL)"


def test_the_rest_of_the_core_loads_no_sqlalchemy() -> None:
    code = (
        "import pkgutil, sys, importlib, agentenvs.core as core\n"
        "for module in pkgutil.iter_modules(core.__path__):\n"
        "    if module.name not in ('database', 'worker'): importlib.import_module('agentenvs.core.' + module.name)\n"
        "sys.exit('sqlalchemy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
