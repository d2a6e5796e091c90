"""A cluster on this machine: a real control plane, a node agent that runs pods as processes, the operator."""
