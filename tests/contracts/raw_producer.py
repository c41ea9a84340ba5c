"""Sends what confluent-kafka cannot: a record with headers whose names are any bytes, by librdkafka itself."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka

_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADERS, _END = 1, 3, 4, 5, 7, 10, 0
_COPY = 2


def send_raw(
    broker: str, topic: str, partition: int, key: bytes, value: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Returns when the record is in the log."""
    packages = Path(confluent_kafka.__file__).parent.parent
    (library,) = (packages / "confluent_kafka.libs").glob("librdkafka*")
    kafka, pointer, size = ctypes.CDLL(str(library)), ctypes.c_void_p, ctypes.c_ssize_t
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(kafka, name).restype = pointer
    error = ctypes.create_string_buffer(512)
    conf = pointer(kafka.rd_kafka_conf_new())
    assert kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", broker.encode(), error, size(512)) == 0, error.value
    producer = pointer(kafka.rd_kafka_new(0, conf, error, size(512)))
    assert producer, error.value
    all_of_them = pointer(kafka.rd_kafka_headers_new(size(len(headers))))
    for name, text in headers:
        assert kafka.rd_kafka_header_add(all_of_them, name, size(len(name)), text, size(len(text))) == 0
    record = (
        (ctypes.c_int(_TOPIC), ctypes.c_char_p(topic.encode())),
        (ctypes.c_int(_PARTITION), ctypes.c_int32(partition)),
        (ctypes.c_int(_VALUE), ctypes.c_char_p(value), size(len(value))),
        (ctypes.c_int(_KEY), ctypes.c_char_p(key), size(len(key))),
        (ctypes.c_int(_FLAGS), ctypes.c_int(_COPY)),
        (ctypes.c_int(_HEADERS), all_of_them),
    )
    assert kafka.rd_kafka_producev(producer, *(part for field in record for part in field), ctypes.c_int(_END)) == 0
    assert kafka.rd_kafka_flush(producer, 10_000) == 0
    kafka.rd_kafka_destroy(producer)
