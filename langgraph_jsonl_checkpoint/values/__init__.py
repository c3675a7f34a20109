"""Channel values ⇄ JSON, equal and typed; each message and each large value once. Touches no files or clocks."""
