"""Progress reports to the operator: from Ray Train's controller through the mailbox to the report endpoint."""
