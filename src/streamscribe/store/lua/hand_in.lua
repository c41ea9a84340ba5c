#!lua
-- KEYS record, index  ARGV id, keep_us, gateway, tenant, ticket, places  -> 1, or 0: the session has moved since
local record, index, id, keep_us, gateway, tenant, ticket, places = KEYS[1], KEYS[2], unpack(ARGV)
local had = redis.call('HGET', record, 'places')
if had and string.find(had, ' ') then
  return 0
end
redis.call('HSET', record, 'gateway', gateway, 'tenant', tenant, 'ticket', ticket, 'places', places)
touch(record, index, id, clock_us(), tonumber(keep_us))
return 1
