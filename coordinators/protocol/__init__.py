"""The machine that numbers, commits and replays transactions, its messages, and the acker. Read this first."""
