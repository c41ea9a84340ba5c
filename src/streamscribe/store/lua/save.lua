#!lua flags=allow-oom
-- KEYS record, index  ARGV id, epoch, owner, keep_us, tenant, opened, checkpoint, record index, skip bytes, ms,
-- models  -> 1, or 0: fenced
-- An empty text is not to be saved. A checkpoint that comes late, behind a newer one, is not either.
local record, index, id, epoch, owner, keep_us = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local tenant, opened, checkpoint, at, skip, ms, models = unpack(ARGV, 5)
local now = clock_us()
if not is_newest(record, epoch, owner) then
  return 0
end
if opened ~= '' then
  redis.call('HSET', record, 'opened', opened, 'tenant', tenant)
end
if checkpoint ~= '' then
  local had = redis.call('HMGET', record, 'at', 'skip')
  local had_at, had_skip = as_number(had[1], -1), as_number(had[2], -1)
  if tonumber(at) > had_at or (tonumber(at) == had_at and tonumber(skip) > had_skip) then
    get_on(record)
    redis.call('HSET', record, 'checkpoint', checkpoint, 'at', at, 'skip', skip, 'checkpoint_ms', ms,
      'models', models)
  end
  redis.call('HSET', record, 'saved_us', whole(now))
end
touch(record, index, id, now, keep_us)
return 1
