#!lua flags=allow-oom
-- Refuses every epoch below the given one from now on, and tells what stands in the stream:
-- {highest id it ever had ('' without a stream), its first entries}. KEYS: stream, control.
-- ARGV: epoch, most entries to tell. Creates nothing: where control is missing no worker appends.
local control = redis.call('HMGET', KEYS[2], 'epoch', 'ended')
if control[1] and not control[2] and tonumber(ARGV[1]) > tonumber(control[1]) then
  redis.call('HSET', KEYS[2], 'epoch', ARGV[1])
end
if redis.call('EXISTS', KEYS[1]) == 0 then return {'', {}} end
local last = ''
local told = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #told, 2 do
  if told[at] == 'last-generated-id' then last = told[at + 1] end
end
return {last, redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])}
