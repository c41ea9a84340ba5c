#!lua flags=allow-oom
-- KEYS record  ARGV epoch, owner, place  -> 1, or 0: fenced
-- An empty place: the session got on, and its owner is at none.
local record, place = KEYS[1], ARGV[3]
if not is_newest(record, ARGV[1], ARGV[2]) then
  return 0
end
if place == '' then
  get_on(record)
  redis.call('HDEL', record, 'place')
else
  redis.call('HSET', record, 'place', place)
end
return 1
