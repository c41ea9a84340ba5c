"""The bus of many machines: Kafka's log between gateways and workers, by librdkafka."""
