"""`streamscribe topics ensure` and what `doctor` says of Kafka, with a real broker."""

import json

import pytest

from tests.contracts.kafka_broker import kafka_broker

FEW = ["kafka.replication=1", "kafka.audio_partitions=4", "kafka.result_partitions=2", "kafka.finalize_partitions=1"]


def setting(*all_of_them):
    return [part for one in all_of_them for part in ("--set", one)]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with kafka_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.address


def test_topics_are_made_once(run, brokers):
    done = run("topics", "ensure", *setting(*FEW, "kafka.topic_prefix=once-"), KAFKA_BROKERS=brokers)
    assert (done.code, done.err) == (0, "")
    (headings,) = (row for row in done.out.splitlines() if "┃" in row)
    assert [heading.strip() for heading in headings.split("┃")[1:-1]] == ["topic", "partitions", "replicas", "state"]
    rows = [[cell.strip() for cell in row.split("│")[1:5]] for row in done.out.splitlines() if "│" in row]
    assert rows == [
        ["once-audio-chunks", "4", "1", "made now"],
        ["once-asr-results", "2", "1", "made now"],
        ["once-offline-finalize", "1", "1", "made now"],
        ["once-final-results", "4", "1", "made now"],
        ["once-dead-letter", "1", "1", "made now"],
    ]
    told = run("topics", "ensure", "--json", *setting(*FEW, "kafka.topic_prefix=once-"), KAFKA_BROKERS=brokers)
    assert json.loads(told.out)[0] == {
        "topic": "once-audio-chunks",
        "partitions": 4,
        "replication": 1,
        "created": False,
    }


def test_what_cannot_be_made_is_a_mistake_of_the_settings(run, brokers):
    done = run("topics", "ensure", KAFKA_BROKERS=brokers)
    assert done.code == 2
    assert "kafka.replication: 3 replicas need as many brokers, and the cluster has 1" in done.err
    done = run("topics", "ensure")
    assert (done.code, done.out) == (2, "")
    assert "kafka.brokers: no Kafka is named; set KAFKA_BROKERS" in done.err


@pytest.mark.parametrize("wrong", ["http://localhost:9092", "user:word@kafka:9092", "a:9092,,b:9092", "kafka:port"])
def test_what_is_no_address_of_a_broker_is_told_at_once(run, wrong):
    done = run("topics", "ensure", KAFKA_BROKERS=wrong)
    assert done.code == 2
    assert "kafka.brokers: not addresses like kafka-1:9092,kafka-2:9092" in done.err
    assert wrong not in done.err


def test_a_cluster_that_does_not_answer_is_named(run):
    done = run("topics", "ensure", KAFKA_BROKERS="SASL_SSL://localhost:1,[::1]:1")
    assert done.code == 1
    assert "no broker answers at SASL_SSL://localhost:1,[::1]:1: " in done.err


def test_topics_with_other_counts_are_refused_with_what_to_type(run, brokers):
    few = setting(*FEW, "kafka.topic_prefix=counts-")
    assert run("topics", "ensure", *few, KAFKA_BROKERS=brokers).code == 0
    done = run("topics", "ensure", *few, *setting("kafka.audio_partitions=8"), KAFKA_BROKERS=brokers)
    assert done.code == 2
    assert "it has 4 partitions, and the settings say 8" in done.err
    assert "type --set kafka.audio_partitions=4, or use another kafka.topic_prefix" in done.err
    done = run("topics", "ensure", *few, *setting("kafka.replication=3"), KAFKA_BROKERS=brokers)
    assert done.code == 2
    assert "type: --set kafka.replication=1" in done.err


def test_doctor_says_what_of_the_cluster_is_not_ready(run, brokers):
    more = setting("model.profile=fake", "gateway.port=0", "gateway.funasr_port=-1", *FEW, "kafka.topic_prefix=doctor-")
    done = run("doctor", "--json", *more, KAFKA_BROKERS=brokers)
    found = {one["name"]: one for one in json.loads(done.out)["findings"] if one["name"].startswith("Kafka")}
    assert (done.code, found["Kafka"]["ok"], found["Kafka topics"]["ok"]) == (1, True, False)
    assert found["Kafka topics"]["type_this"] == "streamscribe topics ensure"
    assert found["Kafka session timeout"]["detail"] == "2000 ms; the brokers do not say what they allow"


def test_doctor_says_once_what_to_type_and_only_what_helps(run, brokers):
    common = setting("model.profile=fake", "gateway.port=0", "gateway.funasr_port=-1", *FEW)
    missing = run("doctor", *common, *setting("kafka.topic_prefix=once-more-"), KAFKA_BROKERS=brokers)
    assert missing.out.count("type: streamscribe topics ensure") == 1
    few = setting(*FEW, "kafka.topic_prefix=other-counts-")
    assert run("topics", "ensure", *few, KAFKA_BROKERS=brokers).code == 0
    others = setting("kafka.topic_prefix=other-counts-", "kafka.audio_partitions=8")
    done = run("doctor", *common, *others, KAFKA_BROKERS=brokers)
    assert (done.code, "topics ensure" in done.out) == (1, False)
    assert "type --set kafka.audio_partitions=4" in done.out
