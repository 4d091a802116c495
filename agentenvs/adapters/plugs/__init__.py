"""Plugs: the suite's environments in the shape that a trainer's own code asks for; one module a trainer.

A plug plays in process, or a server where it is given a ``url``. It asks for the trainer's package when it is used, not
when it is imported, so that a clean install can import them all. The worlds are the same everywhere: what a trainer may
add to a turn (the key of the state, whether the action was valid, the potential) travels in that trainer's own
metadata.
"""
