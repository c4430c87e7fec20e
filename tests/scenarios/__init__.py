"""Readable transcripts: what happens, step by step, in small scenarios."""
