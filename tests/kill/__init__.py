"""Processes that are killed, and machines that lose power, while a saver writes."""
