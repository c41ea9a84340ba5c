#!lua flags=allow-oom
-- KEYS index, (seats, record)...  ARGV seat_us, keep_us, seat...  -> of each as `ports.Kept`
local index, seat_us, keep_us = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now = clock_us()
local done = {}
for i = 1, (#KEYS - 1) / 2 do
  local seats, record, first = KEYS[2 * i], KEYS[2 * i + 1], 3 + (i - 1) * 7
  local gateway = of_record('HGET', record, 'gateway')
  done[i] = gateway == nil and 1 or 0
  if gateway == false or gateway == ARGV[first + 3] then
    sit(seats, record, index, now, seat_us, keep_us, unpack(ARGV, first, first + 6))
    done[i] = 2 - redis.call('HEXISTS', record, 'ticket')
  end
end
return done
