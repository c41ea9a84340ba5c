#!lua flags=no-writes
-- KEYS record...  ARGV field...  -> {now, fields of each...}
local read = { whole(clock_us()) }
for i, record in ipairs(KEYS) do
  read[i + 1] = redis.call('HMGET', record, unpack(ARGV))
end
return read
