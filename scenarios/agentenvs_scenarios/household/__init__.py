"""The household's nouns: rooms, receptacles, objects and goals; hand-made rooms and real game files."""
