"""Programs in Java that tests start: WordCount, with Kafka Streams."""
