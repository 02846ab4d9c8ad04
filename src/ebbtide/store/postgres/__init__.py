"""A store in PostgreSQL: `schema.py` has the tables, `connections.py` the connections, `log.py` one session."""
