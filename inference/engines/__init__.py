"""Engines behind one small protocol. Owns computing tokens; never reads a topic or a store."""
