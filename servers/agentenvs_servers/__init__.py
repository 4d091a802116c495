"""Doors: who may reach an environment, and over which wire."""
