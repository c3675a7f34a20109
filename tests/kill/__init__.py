"""Processes that are killed while a saver writes."""
