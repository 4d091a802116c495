"""Faces of other projects over the suite's environments: a loop written for them runs here."""
