"""Terraplane's data plane: raw text to versioned, measured, deduplicated and packed tables.

The public names: what a plugin author imports.
"""

from dataplane.operator import Annotator, Filter, Operator, Rewrite, Transform
from dataplane.params import Params
from dataplane.source import Fault, Record, Source

__all__ = ["Annotator", "Fault", "Filter", "Operator", "Params", "Record", "Rewrite", "Source", "Transform"]
