"""The tests, one folder a room. A package only so that no installed package of this name can shadow it."""
