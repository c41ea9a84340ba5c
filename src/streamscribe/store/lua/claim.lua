#!lua flags=allow-oom
-- KEYS record, index, mark  ARGV id, owner, ttl_us, keep_us
-- -> {epoch, 0, 1 for the first owner that is known, ends...}, or {0, us left...} of another's lease
-- `mark` is the highest epoch ever given. A session that is not known begins beyond it, and not before the time in
-- microseconds: so no epoch comes again, though the record has ended, or Redis has lost everything.
local record, index, mark = KEYS[1], KEYS[2], KEYS[3]
local id, owner, ttl_us, keep_us = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now = clock_us()
local held = redis.call('HMGET', record, 'epoch', 'owner', 'lease_end_us')
local epoch, lease_end = as_number(held[1], 0), as_number(held[3], 0)
if now < lease_end and held[2] ~= owner then
  return { '0', whole(lease_end - now), '0', '0', '0', '-1' }
end
local first = '0'
if lease_end <= now then
  local highest = as_number(redis.call('GET', mark), 0)
  if epoch == 0 then
    epoch, first = math.max(now, highest + 1), '1'
    redis.call('HSET', record, 'first_epoch', whole(epoch))
  else
    epoch = epoch + 1
    if held[2] ~= owner then
      if held[3] then
        count_end(record)
      end
      redis.call('HDEL', record, 'place')
    end
  end
  redis.call('SET', mark, whole(math.max(epoch, highest)))
end
lease_end = math.max(lease_end, now + ttl_us)
redis.call('HSET', record, 'epoch', whole(epoch), 'owner', owner, 'lease_end_us', whole(lease_end))
touch(record, index, id, now, keep_us)
prune(index, now)
local ends = redis.call('HMGET', record, 'ends', 'same', 'ended_at')
return { whole(epoch), '0', first, whole(as_number(ends[1], 0)), whole(as_number(ends[2], 0)), whole(as_number(ends[3], -1)) }
