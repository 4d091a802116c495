"""Run folders in the formats of others: Inspect's logs, chat data, ATIF trajectories, OpenTelemetry spans.

A run is read an episode at a time (:mod:`.reading`), told once as a conversation (:mod:`.telling`), and spelled by the
module of each format; :mod:`.writing` puts what came of it in its place, whole or not at all.
"""
