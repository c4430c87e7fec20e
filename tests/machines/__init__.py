"""A machine that is neither a broker nor a client, in both drivers."""
