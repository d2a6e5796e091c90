"""Turns the job's input into one of Ray Train's trainers."""
