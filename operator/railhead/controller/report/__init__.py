"""The report endpoint: takes progress from head pods over HTTPS and coalesces it into the status."""
