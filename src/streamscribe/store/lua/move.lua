#!lua flags=allow-oom
-- KEYS record, index  ARGV id, keep_us, gateway, places so far, places now  -> 1, or 0: another was quicker
local record, index, id, keep_us, gateway, before, now = KEYS[1], KEYS[2], unpack(ARGV)
if redis.call('HGET', record, 'places') ~= before then
  return 0
end
redis.call('HSET', record, 'gateway', gateway, 'places', now)
touch(record, index, id, clock_us(), tonumber(keep_us))
return 1
