#!lua flags=allow-oom
-- KEYS record...  ARGV after_us, (epoch, owner)...  -> 1 of each of which no gateway has told for so long, or 0
local since = clock_us() - tonumber(ARGV[1])
local done = {}
for i, record in ipairs(KEYS) do
  done[i] = 0
  if is_newest(record, ARGV[2 * i], ARGV[2 * i + 1]) then
    local at = redis.call('HMGET', record, 'since_us', 'told_us')
    if math.max(as_number(at[1], 0), as_number(at[2], 0)) <= since then
      redis.call('HDEL', record, 'gateway', 'called', 'stage', 'received_ms', 'processed_ms', 'told_us', 'ticket',
        'places')
      done[i] = 1
    end
  end
end
return done
