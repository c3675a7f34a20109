"""Processes that are killed in the middle of a tool call, and what becomes of their threads."""
