"""Hands to the outside: one folder per outside system behind one small contract.

Owns clients and their deadlines; never decides what a machine decides.
"""
