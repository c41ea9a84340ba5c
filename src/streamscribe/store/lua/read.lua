#!lua flags=no-writes
-- KEYS record...  ARGV field...  -> {now, fields of each...}
local none = {}
for field = 1, #ARGV do
  none[field] = false
end
local read = { whole(clock_us()) }
for i, record in ipairs(KEYS) do
  read[i + 1] = of_record('HMGET', record, unpack(ARGV)) or none
end
return read
