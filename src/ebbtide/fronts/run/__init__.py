"""`ebb run -- CMD`: a program behind a proxy of its own."""
