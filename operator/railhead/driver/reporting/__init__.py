"""Progress reports to the operator: from Ray Train's controller through the spool to the report endpoint."""
