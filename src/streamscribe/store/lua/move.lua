#!lua flags=allow-oom
-- KEYS record, index  ARGV id, keep_us, gateway, places so far, places now  -> 1, or 0: another was quicker
local record, index, id, keep_us, gateway, before, now = KEYS[1], KEYS[2], unpack(ARGV)
if redis.call('HGET', record, 'places') ~= before then
  return 0
end
local time = clock_us()
redis.call('HSET', record, 'gateway', gateway, 'places', now, 'told_us', whole(time))
touch(record, index, id, time, tonumber(keep_us))
return 1
