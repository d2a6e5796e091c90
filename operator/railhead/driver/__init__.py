"""Runs in the pods of a job: standard library and Ray only."""
