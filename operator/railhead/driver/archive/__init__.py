"""The archive of a job's logs: a spool in each pod, and a process for each upload to the storage."""
