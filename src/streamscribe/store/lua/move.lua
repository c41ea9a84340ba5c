#!lua flags=allow-oom
-- KEYS record, index, seats  ARGV id, keep_us, gateway, places so far, places now, seat_us or 0: the seat stays as it is
-- -> 1, or 0: another was quicker
local record, index, seats, id, keep_us, gateway, before, now, seat_us = KEYS[1], KEYS[2], KEYS[3], unpack(ARGV)
if redis.call('HGET', record, 'places') ~= before then
  return 0
end
local time = clock_us()
redis.call('HSET', record, 'gateway', gateway, 'places', now, 'told_us', whole(time))
touch(record, index, id, time, tonumber(keep_us))
if seat_us ~= '0' then
  hold_seat(seats, id, time, tonumber(seat_us))
end
return 1
