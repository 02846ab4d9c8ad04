"""The web inspector: shows sessions, and can undo edits if the user allows it at the start. It never plans."""
