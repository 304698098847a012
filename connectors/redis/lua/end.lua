#!lua flags=allow-oom
-- The one end of a stream: a snapshot where asked, the only terminal, the mark, a short life.
-- KEYS: stream, control. ARGV: channel, closing epoch, number, last id the caller saw ('' no
-- stream), snapshot sequence ('' none), snapshot data, terminal sequence, event, data, ttl_ms,
-- then field, value pairs for the control hash, which is made anew where it is gone.
local marked = redis.call('HGET', KEYS[2], 'ended')
if marked then return {'ENDED', marked} end

local last = ''
if redis.call('EXISTS', KEYS[1]) == 1 then
  local told = redis.call('XINFO', 'STREAM', KEYS[1])
  for at = 1, #told, 2 do
    if told[at] == 'last-generated-id' then last = told[at + 1] end
  end
end

local ended
local code = 'APPLIED'
if string.match(last, '^(%d+)-') == ARGV[2] then
  -- Only an end writes in the closing epoch: the terminal is there, only the mark was lost.
  ended = last
  code = 'ENDED'
elseif last ~= ARGV[4] then
  return {'MOVED', last}
else
  local function append(sequence, event, data)
    local id = ARGV[2] .. '-' .. sequence
    redis.call('XADD', KEYS[1], id, 'e', event, 'd', data)
    redis.call('SPUBLISH', ARGV[1], id .. ' ' .. event .. ' ' .. data)
    return id
  end
  if ARGV[5] ~= '' then append(ARGV[5], 'snapshot', ARGV[6]) end
  ended = append(ARGV[7], ARGV[8], ARGV[9])
end
redis.call('HSET', KEYS[2], 'number', ARGV[3], 'epoch', ARGV[2], 'ended', ended,
  unpack(ARGV, 11))
redis.call('PEXPIRE', KEYS[1], ARGV[10])
redis.call('PEXPIRE', KEYS[2], ARGV[10])
return {code, ended}
