"""What `roost demo` runs: a live federation whose publishers move to their audience, watched from outside."""
