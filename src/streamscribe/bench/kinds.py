"""What can be chosen for measurements; apart, so that the command line is quick to begin."""

from enum import StrEnum


class Size(StrEnum):
    """`tiny`: the model that the profile brings along. `real`: 220 M random weights, in 8 bits for ONNX Runtime."""

    TINY = "tiny"
    REAL = "real"


class Engine(StrEnum):
    """What runs the model; `torch` needs the extra `funasr`."""

    ONNX = "onnx"
    TORCH = "torch"


class Part(StrEnum):
    """What a replay measures. `stub`: the service over an encoder of known cost. `reuse`: the workload without reuse,
    cold and warm. `unique`: each clip once. `restart`: a server's first request."""

    STUB = "stub"
    REUSE = "reuse"
    UNIQUE = "unique"
    RESTART = "restart"


class ClusterPart(StrEnum):
    """What is done to processes under live streams. `kill`: a random worker is killed every five seconds.
    `kill_tiny`: the same with the small models and speech. `roll`: each
    process is replaced, one after the other. `freeze`: a worker is stopped for three times what counts as its death.
    `overload`: three times the sessions that workers can serve. `scale`: one, two and four of them. `proxy`: a hostile
    network before the server. `streams`: how many a gateway with one worker process keeps up with, beside one process
    for all. `redis`: it is frozen, then killed. `broker`: it is frozen."""

    KILL = "kill"
    KILL_TINY = "kill_tiny"
    ROLL = "roll"
    FREEZE = "freeze"
    OVERLOAD = "overload"
    SCALE = "scale"
    PROXY = "proxy"
    STREAMS = "streams"
    REDIS = "redis"
    BROKER = "broker"


LOCAL_PARTS = tuple(part for part in ClusterPart if part not in (ClusterPart.REDIS, ClusterPart.BROKER))
KAFKA_PARTS = (ClusterPart.KILL, ClusterPart.ROLL, ClusterPart.FREEZE, ClusterPart.REDIS, ClusterPart.BROKER)
"""Of a cluster of gateways and workers over Kafka and Redis."""
