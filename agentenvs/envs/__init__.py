"""Verbs: what an action does in each world, and how the world describes itself."""
