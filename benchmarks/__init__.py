"""What Railhead costs in time, measured on this machine. Each benchmark is its own program."""
