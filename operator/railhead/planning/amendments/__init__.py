"""What a pass adds to any decision; planner.py has their order."""
