#!lua flags=allow-oom
-- KEYS numbers  ARGV gateway, ttl_us, first, last  -> {number}; {-1, the first end, the last end, whose the first is}
-- Each field is a number with `END GATEWAY`. One's own is renewed, also where it has ended and nobody took it.
local numbers, gateway, ttl_us = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = clock_us()
local first, last, holder
for number = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  local field = whole(number)
  local ends, by = string.match(redis.call('HGET', numbers, field) or '', '^(%d+) (.*)$')
  ends = as_number(ends, 0)
  if ends <= now or by == gateway then
    redis.call('HSET', numbers, field, whole(now + ttl_us) .. ' ' .. gateway)
    redis.call('PEXPIRE', numbers, whole(math.max(redis.call('PTTL', numbers), ttl_us / 1000)))
    return { field }
  end
  if not first or ends < first then
    first, holder = ends, by
  end
  last = math.max(last or ends, ends)
end
return { '-1', whole(first), whole(last), holder }
