"""The API server, as a user of it sees jobs."""
