#!lua flags=allow-oom
-- KEYS ends of announcements, announcements  ARGV worker  -> nothing
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
