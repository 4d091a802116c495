"""Fictional search worlds: universes that share no fact with ours, articles about them, and questions."""
