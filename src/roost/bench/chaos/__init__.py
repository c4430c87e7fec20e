"""Chaos: real brokers are killed, stopped and run out of disk under load, and all must arrive."""
