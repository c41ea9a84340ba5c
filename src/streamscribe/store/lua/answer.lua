#!lua
-- KEYS answers to one order  ARGV worker, text, keep_ms  -> nothing
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
