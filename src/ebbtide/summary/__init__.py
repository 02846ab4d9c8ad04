"""Asking for a summary, and never taking one at its word. Pure: strings in, strings out."""
