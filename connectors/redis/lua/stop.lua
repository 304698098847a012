#!lua flags=allow-oom
-- Tells the worker to stop with its next append. KEYS: control. ARGV: number, reason.
local stored = redis.call('HMGET', KEYS[1], 'number', 'ended')
if not stored[1] then return 'MISSING' end
if stored[2] then return 'ENDED' end
if tonumber(ARGV[1]) <= tonumber(stored[1]) then return 'OLD' end
redis.call('HSET', KEYS[1], 'number', ARGV[1])
redis.call('HSETNX', KEYS[1], 'stop', ARGV[2])
return 'APPLIED'
