"""`ebb proxy`: any client, no code. Bytes go on as they came unless an edit was made; `server.py` is where to start."""
