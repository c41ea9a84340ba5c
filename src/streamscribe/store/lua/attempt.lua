#!lua flags=allow-oom
-- KEYS attempts: a set of who began a segment and did not end  ARGV by, fewer_than, keep_s  -> how many others are in it
-- Who begins joins them, where the others are fewer than so many.
local key, by = KEYS[1], ARGV[1]
local others = redis.call('SCARD', key) - redis.call('SISMEMBER', key, by)
if others < tonumber(ARGV[2]) then
  redis.call('SADD', key, by)
  redis.call('EXPIRE', key, ARGV[3])
end
return others
