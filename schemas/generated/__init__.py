"""Generated types; see `schemas/codegen.py`."""
