"""Values that every other room uses: attempts, numbers, errors, times."""
