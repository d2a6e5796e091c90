"""The report endpoint: receives progress from head pods over HTTPS and coalesces it into the status."""
