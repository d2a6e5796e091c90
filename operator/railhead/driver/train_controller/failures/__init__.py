"""What Ray Train's controller does about a failure."""
