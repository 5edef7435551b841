"""Definitions of batches, their admission, and the retries of those that failed."""
