"""Monitors: see the next part."""
NODES = {}
