"""What Railhead costs in time, measured on this machine. Each benchmark is a program of its own."""
