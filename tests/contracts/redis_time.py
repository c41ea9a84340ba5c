"""Time that passes in a Redis at once: everything that the store keeps is moved into the past."""

from typing import Any

_MOVE = """
local ms, us = tonumber(ARGV[1]), tonumber(ARGV[1]) * 1000
for _, key in ipairs(redis.call('KEYS', 'streamscribe:*')) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if string.sub(field, -3) == '_us' then redis.call('HINCRBY', key, field, string.format('%.0f', -us)) end
    end
  elseif kind == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, string.format('%.0f', -us), member)
    end
  elseif kind == 'list' then
    for i, time in ipairs(redis.call('LRANGE', key, 0, -1)) do
      redis.call('LSET', key, i - 1, string.format('%.0f', time - us))
    end
  end
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, string.format('%.0f', math.max(0, left - ms))) end
end
"""


async def pass_time(client: Any, seconds: float) -> None:
    """As if so many seconds had gone by since the last call of the store; `client` is an asynchronous one."""
    await client.eval(_MOVE, 0, round(seconds * 1000))
