"""What other threads and processes see of a topology."""
