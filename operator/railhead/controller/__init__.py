"""The shell around the planner: watches, store, queue, loop, executor, report endpoint."""
