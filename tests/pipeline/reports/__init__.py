"""Pages on recorded runs."""
