#!lua flags=allow-oom
-- KEYS record  ARGV epoch, owner
if is_newest(KEYS[1], ARGV[1], ARGV[2]) then
  redis.call('HDEL', KEYS[1], 'lease_end_us')
end
return 1
