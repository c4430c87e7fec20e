"""The live driver: brokers as processes, with sockets, a store, TLS and a real clock."""
