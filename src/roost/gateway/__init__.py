"""Other protocols: faces of a federation for those who do not speak Roost's own. docs/GATEWAYS.md."""
