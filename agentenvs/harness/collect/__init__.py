"""Verified trajectories: episodes that were played again, written as chat data to train on.

Each row is one whole episode as a model would have been shown it, with the spans that are the player's own. Every word
of the world in it comes from playing the record again, and so does the proof that the actions lead to the reward.
"""
