"""The household's verbs and words: ALFWorld's text mode, exactly, and mended."""
