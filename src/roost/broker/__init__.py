"""The broker as a sans-I/O state machine: `Broker.handle(event, now) -> commands`."""
