"""Runs batches as Spark jobs."""
