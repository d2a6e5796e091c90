"""What a pass adds to any decision; `planner.py` has the order."""
