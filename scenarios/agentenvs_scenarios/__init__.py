"""Nouns: what each world is made of, and what is asked in it."""
