#!lua
-- KEYS ends of announcements, orders  ARGV text, keep_ms, most  -> {number, workers that are to answer...}
local now = clock_us()
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local number = math.max(now, (tonumber(last[2]) or 0) + 1)
redis.call('ZADD', KEYS[2], whole(number), whole(number) .. ' ' .. ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local workers = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. whole(now), '+inf')
table.insert(workers, 1, whole(number))
return workers
