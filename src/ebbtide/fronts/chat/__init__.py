"""`ebb chat`: a small coding agent on the engine. Start at `loop.py`."""
