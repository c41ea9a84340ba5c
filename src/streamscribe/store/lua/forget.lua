#!lua flags=allow-oom
-- KEYS record, index  ARGV id, epoch, owner  -> 1, or 0: fenced
if not is_newest(KEYS[1], ARGV[2], ARGV[3]) then
  return 0
end
drop(KEYS[1], KEYS[2], ARGV[1], 'epoch', 'first_epoch', 'owner', 'lease_end_us', 'opened', 'checkpoint', 'at', 'skip',
  'checkpoint_ms', 'models', 'saved_us', 'ends', 'same', 'ended_at', 'place')
return 1
