"""The reference trainer: small enough to read, exact enough to trust, general enough to compare methods in.

Read in this order: :mod:`records` (what a rollout leaves), :mod:`plugins` (the seven ways to change training),
:mod:`batch` (what credit is written to), then a method of :mod:`methods`, then the engine.
"""
