"""`ebb statusline`: one line on the running session, for Claude Code."""
