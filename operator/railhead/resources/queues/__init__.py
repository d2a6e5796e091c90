"""Queues: who admits a job, and the object by which it asks."""
