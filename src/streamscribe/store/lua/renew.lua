#!lua flags=allow-oom
-- KEYS index, record...  ARGV ttl_us, keep_us, (id, epoch)...  -> 1 or 0 of each
local index, ttl_us, keep_us = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock_us()
local done = {}
for i = 1, #KEYS - 1 do
  local record, id, epoch = KEYS[i + 1], ARGV[2 * i + 1], ARGV[2 * i + 2]
  local held = redis.call('HMGET', record, 'epoch', 'lease_end_us')
  local lease_end = tonumber(held[2] or 0)
  done[i] = 0
  if held[1] == epoch and now < lease_end then
    redis.call('HSET', record, 'lease_end_us', whole(math.max(lease_end, now + ttl_us)))
    touch(record, index, id, now, keep_us)
    done[i] = 1
  end
end
return done
