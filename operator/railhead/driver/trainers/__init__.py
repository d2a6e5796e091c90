"""From the job's input to one of Ray Train's trainers."""
