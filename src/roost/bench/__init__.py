"""Benchmarks: seeded workloads, baselines to compare with, and figures that a program can read."""
