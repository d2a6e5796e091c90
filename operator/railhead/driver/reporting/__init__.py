"""What the run tells the operator: from the controller by the spool to the report endpoint."""
