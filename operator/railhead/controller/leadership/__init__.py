"""Leader election: one of several operators plans at a time, by a Lease."""
