"""Compiled code of the hot path: frames of publications, from bytes to bytes. See docs/CHUNKS.md."""
