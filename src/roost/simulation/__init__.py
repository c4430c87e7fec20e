"""The laboratory: a virtual clock, brokers with resources, a faulty network, and checkers that watch
from outside."""
