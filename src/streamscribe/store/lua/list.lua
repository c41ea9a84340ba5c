#!lua flags=no-writes
-- KEYS names by their end (the index, or a tenant's seats)  ARGV limit  -> {how many there are, names...}
local now = clock_us()
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. whole(now), '+inf', 'LIMIT', 0, ARGV[1])
table.insert(found, 1, redis.call('ZCOUNT', KEYS[1], '(' .. whole(now), '+inf'))
return found
