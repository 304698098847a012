#!lua flags=no-writes
-- The highest id the stream ever had, also where it was trimmed to nothing; '' without a stream.
-- KEYS: stream.
if redis.call('EXISTS', KEYS[1]) == 0 then return '' end
local told = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #told, 2 do
  if told[at] == 'last-generated-id' then return told[at + 1] end
end
return ''
