"""Sealed runs that a board's own server hosts: who plays what, what came of it, and what was promised beforehand.

An operator holds one secret, from which every sealed scenario comes, and publishes a commitment to it before anybody
plays (:mod:`~agentenvs.leaderboard.hosting.epoch`). A ticket names which of the scenarios a contestant is given, in an
order of its own (:mod:`~agentenvs.leaderboard.hosting.panels`). What was played is taken from the server's journal,
played again record by record (:mod:`~agentenvs.leaderboard.hosting.judging`), and becomes a row
(:mod:`~agentenvs.leaderboard.hosting.results`): the contestant sends nothing.

Nothing here knows of servers; the command line brings both together.
"""
