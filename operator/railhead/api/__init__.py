"""The TrainJob resource as values: spec, status, conditions, names. No I/O, no clock."""
