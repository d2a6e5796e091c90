"""A deterministic simulation around the real planner and executor: a failing schedule has a seed that replays it."""
