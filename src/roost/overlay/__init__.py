"""Overlays of brokers as pure values: topologies and what makes them trees, how they are walked, where their
brokers stand in a picture, and the files that say them."""
