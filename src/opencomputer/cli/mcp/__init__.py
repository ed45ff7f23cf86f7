"""`oc mcp`: sandboxes as tools for any client of the Model Context Protocol."""
