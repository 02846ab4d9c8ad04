"""`ebb audit`: what your own sessions cost, and what they would have cost."""
