"""The values that every other room uses: attempts, numbers, errors, times."""
