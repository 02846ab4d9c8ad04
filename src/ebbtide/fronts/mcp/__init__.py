"""Recall as an MCP server, over stdio. Needs the extra `mcp`; importing this does not."""
