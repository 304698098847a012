"""Topics: each declared once, with its wire format, its errors and what every process needs to run.

Imports only `schemas`. Never imports Faust, FastAPI, an engine, Redis or the store.
"""
