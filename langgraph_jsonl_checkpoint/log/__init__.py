"""Records on disk. Knows bytes and records; nothing of LangGraph or LangChain."""
