#!lua flags=allow-oom
-- Creates or restores the control hash. KEYS: control.
-- ARGV: number, epoch, ttl_ms, stop ('' none), released_to ('' all), then field, value pairs.
-- A stop once given and a higher epoch are never taken back.
local stored = redis.call('HMGET', KEYS[1], 'number', 'ended', 'epoch')
if stored[2] then return 'ENDED' end
if stored[1] and tonumber(ARGV[1]) <= tonumber(stored[1]) then return 'OLD' end
local epoch = math.max(tonumber(ARGV[2]), tonumber(stored[3] or '0'))
redis.call('HSET', KEYS[1], 'number', ARGV[1], 'epoch', string.format('%d', epoch),
  'ttl_ms', ARGV[3], unpack(ARGV, 6))
if ARGV[4] ~= '' then redis.call('HSETNX', KEYS[1], 'stop', ARGV[4]) end
if ARGV[5] == '' then
  redis.call('HDEL', KEYS[1], 'released_to')
else
  redis.call('HSET', KEYS[1], 'released_to', ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 'APPLIED'
