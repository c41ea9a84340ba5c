#!lua flags=allow-oom
-- KEYS index, record...  ARGV ttl_us, keep_us, (id, epoch, owner)...  -> 1 or 0 of each
local index, ttl_us, keep_us = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock_us()
local done = {}
for i = 1, #KEYS - 1 do
  local record, id, epoch, owner = KEYS[i + 1], unpack(ARGV, 3 * i, 3 * i + 2)
  local lease_end = as_number(of_record('HGET', record, 'lease_end_us'), 0)
  done[i] = 0
  if now < lease_end and is_newest(record, epoch, owner) then
    redis.call('HSET', record, 'lease_end_us', whole(math.max(lease_end, now + ttl_us)))
    touch(record, index, id, now, keep_us)
    done[i] = 1
  end
end
return done
