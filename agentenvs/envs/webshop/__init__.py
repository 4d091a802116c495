"""The web shop's verbs and words: WebShop's text modes, exactly, and mended."""
