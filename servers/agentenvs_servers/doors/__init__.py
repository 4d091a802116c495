"""Other protocols over the same sessions; each is a small module, and none is known to the core of the server."""
