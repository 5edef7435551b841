"""The machine that numbers, commits and replays transactions, and its acker. Read this first."""
