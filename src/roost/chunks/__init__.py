"""The hot path: publications that came in one read, from bytes to bytes. See docs/CHUNKS.md."""
