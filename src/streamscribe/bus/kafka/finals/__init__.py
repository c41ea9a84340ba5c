"""Finals over Kafka: workers ask, finalizers recognise and answer; a worker alone tells what became of a session."""
