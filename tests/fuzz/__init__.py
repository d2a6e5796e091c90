"""Mutated jobs, pods, reports and termination messages: nothing crashes, and no other job is touched."""
