#!lua
-- Appends one entry of a worker's epoch and publishes it. KEYS: stream, control.
-- ARGV: channel, epoch, sequence, event, data. Creates nothing where control is missing.
-- Without the allow-oom flag: a full Redis refuses it before it starts.
local control = redis.call('HMGET', KEYS[2],
  'epoch', 'ended', 'stop', 'reader_seen_at_ms', 'ttl_ms', 'status')
local epoch = tonumber(ARGV[2])
if not control[1] then return {'LOST'} end
if control[2] or epoch < tonumber(control[1]) then return {'FENCED'} end

local id = ARGV[2] .. '-' .. ARGV[3]
local missing = 0
local added = false
if ARGV[3] ~= '1' and ARGV[4] ~= 'snapshot' then
  added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', id, 'e', ARGV[4], 'd', ARGV[5])
  if not added then missing = 1 end
end
if not added then
  added = redis.pcall('XADD', KEYS[1], id, 'e', ARGV[4], 'd', ARGV[5])
end
if type(added) == 'table' then
  -- Not above the top: a newer epoch wrote, or this very entry is repeated after a lost answer.
  local known = redis.call('XRANGE', KEYS[1], id, id)[1]
  if known and known[2][2] == ARGV[4] and known[2][4] == ARGV[5] then
    added = false
    if ARGV[3] ~= '1' and ARGV[4] ~= 'snapshot' then
      -- Its first answer may have been lost, and with it that there was nothing before it.
      local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
      if first[1] == id then missing = 1 end
    end
  else
    local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
    if top and tonumber(string.match(top[1], '^%d+')) > epoch then return {'FENCED'} end
    return {'ORDER'}
  end
end

if epoch > tonumber(control[1]) then redis.call('HSET', KEYS[2], 'epoch', ARGV[2]) end
if control[6] == 'queued' then redis.call('HSET', KEYS[2], 'status', 'running') end
redis.call('PEXPIRE', KEYS[1], control[5])
redis.call('PEXPIRE', KEYS[2], control[5])
if added then
  redis.call('SPUBLISH', ARGV[1], id .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
end
local age = -1
if control[4] then
  local now = redis.call('TIME')
  age = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(control[4])
end
return {control[3] and 'STOP' or 'OK', missing, control[3] or '', age}
