"""Many jobs that compete for one cluster's GPUs, in simulated time: with a queue, with gangs, and with neither."""
