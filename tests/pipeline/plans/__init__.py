"""Plans: what they propose, how they are carried out, and what replaying them shows."""
