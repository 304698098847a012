#!lua flags=allow-oom
-- Moves the code points that may be shown. KEYS: control. ARGV: number, released_to.
local stored = redis.call('HMGET', KEYS[1], 'number', 'ended')
if not stored[1] then return 'MISSING' end
if stored[2] then return 'ENDED' end
if tonumber(ARGV[1]) <= tonumber(stored[1]) then return 'OLD' end
redis.call('HSET', KEYS[1], 'number', ARGV[1], 'released_to', ARGV[2])
return 'APPLIED'
