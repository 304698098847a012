#!lua flags=allow-oom
-- What append would answer, without an entry: keeps both keys alive, raises the epoch.
-- KEYS: stream, control. ARGV: epoch, sequence of the writer's last entry (0 before the first).
-- Allowed on a full Redis, so that stop and fence still reach a worker that cannot append.
local control = redis.call('HMGET', KEYS[2],
  'epoch', 'ended', 'stop', 'reader_seen_at_ms', 'ttl_ms', 'status')
local epoch = tonumber(ARGV[1])
if not control[1] then return {'LOST'} end
if control[2] or epoch < tonumber(control[1]) then return {'FENCED'} end

if epoch > tonumber(control[1]) then redis.call('HSET', KEYS[2], 'epoch', ARGV[1]) end
if control[6] == 'queued' then redis.call('HSET', KEYS[2], 'status', 'running') end
redis.call('PEXPIRE', KEYS[2], control[5])
local there = redis.call('PEXPIRE', KEYS[1], control[5])
local missing = (there == 0 and ARGV[2] ~= '0') and 1 or 0
local age = -1
if control[4] then
  local now = redis.call('TIME')
  age = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(control[4])
end
return {control[3] and 'STOP' or 'OK', missing, control[3] or '', age}
