#!lua
-- KEYS record, index  ARGV id, keep_us, gateway, tenant, ticket, places  -> 1, or 0: the session has moved since
local record, index, id, keep_us, gateway, tenant, ticket, places = KEYS[1], KEYS[2], unpack(ARGV)
local had = redis.call('HMGET', record, 'places', 'gateway')
if had[1] and (string.find(had[1], ' ') or had[2] ~= gateway) then
  return 0
end
redis.call('HSET', record, 'gateway', gateway, 'tenant', tenant, 'ticket', ticket, 'places', places)
touch(record, index, id, clock_us(), tonumber(keep_us))
return 1
