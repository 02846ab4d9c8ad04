"""`ebb demo`: the shipped session replayed, to be watched."""
