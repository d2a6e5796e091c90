"""The users' side of the API server: reads and changes TrainJobs, and explains them. Imports no Ray, torch or kopf."""
