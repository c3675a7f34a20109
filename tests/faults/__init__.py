"""Disks that fail, and machines that lose power, under each single operation of a log."""
