"""Reads what a tide gauge logs and writes the harbour master's weekly report."""
