"""Real servers that are killed, starved and cut off under load, and an account of every turn their clients saw."""
