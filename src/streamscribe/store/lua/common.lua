-- What every script begins with. Times are microseconds of Redis' clock; numbers go out as whole digits.

local function clock_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function whole(number)
  return string.format('%.0f', number)
end

-- A number that one of us wrote. What is none, or more than can be told from its neighbours, is as if not there.
local function as_number(text, otherwise)
  local found = tonumber(string.match(text or '', '^%d+$'))
  return found and found < 2 ^ 53 and found or otherwise
end

-- What a record answers; nil where its key is no record at all, so that the others of a call have what is theirs.
local function of_record(command, record, ...)
  local found = redis.pcall(command, record, ...)
  if type(found) == 'table' and found.err then
    return nil
  end
  return found
end

-- Whether the lease is the session's newest. Its owner counts too: a failover to a replica that had not heard of the
-- last claim gives that epoch once more.
local function is_newest(record, epoch, owner)
  local held = of_record('HMGET', record, 'epoch', 'owner') or {}
  return held[1] == epoch and held[2] == owner
end

-- The session is spoken of: it is kept for another `keep_us`, and so is its place in the index.
local function touch(record, index, id, now, keep_us)
  redis.call('HSETNX', record, 'since_us', whole(now))
  redis.call('PEXPIRE', record, whole(keep_us / 1000))
  redis.call('ZADD', index, whole(now + keep_us), id)
end

-- Takes some names of sessions that Redis has forgotten out of the index: more than one call can add.
local function prune(index, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', whole(now), 'LIMIT', 0, 100)) do
    redis.call('ZREM', index, id)
  end
end

-- One side lets go of the session; it is gone when neither its worker (epoch) nor its gateway has it.
local function drop(record, index, id, ...)
  redis.call('HDEL', record, ...)
  if redis.call('HEXISTS', record, 'epoch') + redis.call('HEXISTS', record, 'gateway') == 0 then
    redis.call('DEL', record)
    redis.call('ZREM', index, id)
  end
end

-- The owner's lease was not released: it has ended, at the place that it noted last (`core.quarantine`).
local function count_end(record)
  local had = redis.call('HMGET', record, 'ends', 'same', 'ended_at', 'place')
  local count, place, same = as_number(had[1], 0), had[4] or '-1', 1
  if count > 0 and place == had[3] then
    same = as_number(had[2], 0) + 1
  end
  redis.call('HSET', record, 'ends', whole(count + 1), 'same', whole(same), 'ended_at', place)
end

-- The session is beyond the places at which owners ended: they count no more. Where its owner is, it is yet.
local function get_on(record)
  redis.call('HDEL', record, 'ends', 'same', 'ended_at')
end

-- The session's seat, had or not, lasts for another `seat_us`.
local function hold_seat(seats, id, now, seat_us)
  redis.call('ZADD', seats, whole(now + seat_us), id)
  redis.call('PEXPIRE', seats, whole(seat_us / 1000))
end

-- A gateway tells where a session stands, and holds its seat.
local function sit(seats, record, index, now, seat_us, keep_us, id, tenant, called, gateway, stage, received, processed)
  hold_seat(seats, id, now, seat_us)
  redis.call('HSET', record, 'tenant', tenant, 'called', called, 'gateway', gateway, 'stage', stage,
    'received_ms', received, 'processed_ms', processed, 'told_us', whole(now))
  touch(record, index, id, now, keep_us)
end
