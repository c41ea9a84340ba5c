#!lua
-- KEYS ends of announcements, orders  ARGV text, keep_ms, most  -> {number, workers that are to answer...}
local now = clock_us()
redis.call('ZREMRANGEBYSCORE', KEYS[2], whole(2 ^ 53), '+inf')  -- none of ours: numbers could not grow
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local number = whole(math.max(now, (tonumber(last[2]) or 0) + 1))
local workers = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. whole(now), '+inf')
-- Names in the order itself: asked is who is announced now, whenever it reads it.
redis.call('ZADD', KEYS[2], number, number .. ' ' .. table.concat(workers, ' ') .. '\n' .. ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
table.insert(workers, 1, number)
return workers
