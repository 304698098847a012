#!lua flags=allow-oom
-- Refuses every epoch below the given one from now on. KEYS: control. ARGV: epoch.
-- Creates nothing: where control is missing no worker can append anyway.
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'ended')
if not stored[1] then return 'MISSING' end
if stored[2] then return 'ENDED' end
if tonumber(ARGV[1]) <= tonumber(stored[1]) then return 'OLD' end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return 'APPLIED'
