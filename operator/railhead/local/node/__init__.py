"""A node agent: registers a Node and runs its pods as processes of this machine."""
