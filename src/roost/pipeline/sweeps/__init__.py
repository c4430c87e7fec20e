"""Sweeps: a grid of parameters and seeds over a task, wherever its cells run."""
