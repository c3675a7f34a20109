"""What this package knows of LangGraph's private names, all of it: they may change under it, and then here."""
