"""NATS JetStream as a source."""
