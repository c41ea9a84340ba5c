#!lua flags=allow-oom
-- KEYS numbers  ARGV gateway, number
local held = redis.call('HGET', KEYS[1], ARGV[2])
if held and string.match(held, '^%d+ (.*)$') == ARGV[1] then
  redis.call('HDEL', KEYS[1], ARGV[2])
end
return 1
