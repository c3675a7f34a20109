"""Logs that somebody wrote who knows the format and means harm, and places where somebody else was first."""
