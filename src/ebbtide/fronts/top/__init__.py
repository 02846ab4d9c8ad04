"""`ebb top`: a live table of sessions."""
