"""The hot path: publications that came in one read, taken together, from bytes to bytes. See docs/CHUNKS.md."""
