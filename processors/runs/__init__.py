"""Runs: the life of one generation, from its start to the one terminal."""
