"""Which partition a key goes to: Murmur2 as Kafka's own clients have it (Austin Appleby's, seed 0x9747b28c)."""

_SEED, _M, _R = 0x9747B28C, 0x5BD1E995, 24
_32 = 0xFFFFFFFF


def partition_of(key: str, partitions: int) -> int:
    """The partition that producers with the partitioner `murmur2` or `murmur2_random` give this key."""
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    length = len(data)
    h = (_SEED ^ length) & _32
    whole = length - length % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _32
        k = (k ^ k >> _R) * _M & _32
        h = (h * _M & _32) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _32
    h = (h ^ h >> 13) * _M & _32
    return h ^ h >> 15
