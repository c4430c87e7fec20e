"""The Spark data source `roost`: a federation of brokers as a stream and as a sink."""
