"""What plugs into a running graph: the hooks around tool calls and model calls, and resuming."""
