"""What each batch consists of, when it may start, and when a failed one is tried again."""
