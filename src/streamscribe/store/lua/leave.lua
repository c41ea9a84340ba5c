#!lua flags=allow-oom
-- KEYS seats, record, index  ARGV id, gateway
local seats, record, index, id, gateway = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local has = redis.call('HGET', record, 'gateway')
if not has or has == gateway then
  redis.call('ZREM', seats, id)
  drop(record, index, id, 'gateway', 'called', 'stage', 'received_ms', 'processed_ms', 'told_us',
    'ticket', 'places')
end
return 1
