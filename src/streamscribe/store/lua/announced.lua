#!lua flags=allow-oom
-- KEYS ends of announcements, announcements  -> {worker, text...}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', whole(clock_us()), 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[1], worker)
  redis.call('HDEL', KEYS[2], worker)
end
return redis.call('HGETALL', KEYS[2])
