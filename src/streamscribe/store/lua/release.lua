#!lua flags=allow-oom
-- KEYS record  ARGV epoch
if redis.call('HGET', KEYS[1], 'epoch') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'lease_end_us')
end
return 1
