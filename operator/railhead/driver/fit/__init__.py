"""What both processes that may call fit() do: the driver, and the user's script."""
