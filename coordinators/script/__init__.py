"""Scripts of protocol steps, played without Spark and without a server."""
