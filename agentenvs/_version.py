"""The version, in one place: the build, the records and the changelog read it here."""

__version__ = "0.1.0"
