"""`ebb replay`: recorded sessions under several policies, side by side."""
