#!lua
-- KEYS seats, entries, record, index  ARGV seat_us, keep_us, max sessions, max per minute, seat...
-- -> {1, 0}; {0, us until a session may begin}; {-1, 0}: all seats are taken.  Refused by Redis itself where it is full.
-- A session that another gateway has by now stays there: who comes late is told by `keep`.
-- `seats` are sessions by their end; `entries` the times of the last entries, the newest first.
local seats, entries, record, index = unpack(KEYS)
local seat_us, keep_us, most, most_a_minute = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local minute_us = 60 * 1000000
local id = ARGV[5]
local now = clock_us()
local gateway = redis.call('HGET', record, 'gateway')
if gateway and gateway ~= ARGV[8] then
  return { '1', '0' }
end
redis.call('ZREMRANGEBYSCORE', seats, '-inf', whole(now))
if not redis.call('ZSCORE', seats, id) then
  if redis.call('ZCARD', seats) >= most then
    return { '-1', '0' }
  end
  if most_a_minute > 0 then
    local nth = redis.call('LINDEX', entries, most_a_minute - 1)
    local since = now - as_number(nth, 0)
    if since < minute_us then
      return { '0', whole(minute_us - since) }
    end
    redis.call('LPUSH', entries, whole(now))
    redis.call('LTRIM', entries, 0, most_a_minute - 1)
    redis.call('PEXPIRE', entries, minute_us / 1000)
  end
end
sit(seats, record, index, now, seat_us, keep_us, unpack(ARGV, 5))
prune(index, now)
return { '1', '0' }
