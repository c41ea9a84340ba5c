#!lua flags=allow-oom
-- KEYS ends of announcements, announcements, orders  ARGV worker, for_us, text, after  -> {(order, its number) of those newer than `after`...}
redis.call('ZADD', KEYS[1], whole(clock_us() + ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[4], '(' .. whole(2 ^ 53), 'WITHSCORES', 'LIMIT', 0, 16)
