"""Modules that the pods of a local cluster import as top-level ones: their `railhead` is the driver's bundle."""
