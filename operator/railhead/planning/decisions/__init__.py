"""What a pass may decide: one decision per file; planner.py has their order."""
