"""The journal: every action of every session before its answer leaves, and the way back from it."""
