"""`ebb mcp`: recall as an MCP server over stdio. Serving needs the extra `mcp`; importing does not."""
