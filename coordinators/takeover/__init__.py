"""What a new leader does before its first transaction: it compares, recovers, and accepts changes."""
