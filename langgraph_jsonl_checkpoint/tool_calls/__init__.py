"""The tool calls of a thread: which may run, and the records that say so."""
