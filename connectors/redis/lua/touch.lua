#!lua flags=allow-oom
-- Somebody reads this generation now. KEYS: control. Does nothing where it is missing.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'reader_seen_at_ms',
  string.format('%d', now[1] * 1000 + math.floor(now[2] / 1000)))
return 1
