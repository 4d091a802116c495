"""Worth: what an outcome is worth, and how that could be cheated."""
