"""`ebb run -- CMD`: run a program behind its own proxy."""
