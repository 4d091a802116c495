"""The rules, words and players of the search worlds."""
