"""AutoHedge: an edge proxy that sees whether the model answers."""

__version__ = "0.1.0"
