"""A board of results that were computed again, by whoever shows them.

A submission is one file (:mod:`~agentenvs.leaderboard.bundle`), read with suspicion
(:mod:`~agentenvs.leaderboard.unpacking`). Every record in it is played again in a process of its own
(:mod:`~agentenvs.leaderboard.clean`, :mod:`~agentenvs.leaderboard.verifying`); what comes of that, and nothing else, is
kept and ranked (:mod:`~agentenvs.leaderboard.store`, :mod:`~agentenvs.leaderboard.ranking`) and shown
(:mod:`~agentenvs.leaderboard.pages`).
"""
