"""Small batches through Spark tasks that stay: the pool of tasks, and the connections to them."""
