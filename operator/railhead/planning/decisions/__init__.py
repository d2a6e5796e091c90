"""What a pass may decide: one subject per file; planner.py has their order."""
