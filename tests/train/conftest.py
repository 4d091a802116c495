"""Small models for the tests of the trainer, which skip themselves without PyTorch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason='the trainer needs PyTorch: pip install "agentenvs[train]"')
pytest.importorskip("transformers", reason='the trainer needs transformers: pip install "agentenvs[train]"')
