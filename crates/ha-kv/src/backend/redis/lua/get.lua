-- ARGV: key, the largest value to answer.
fault = primary()
if fault then return fault end
local size = redis.call('HSTRLEN', VALUES, ARGV[4])
if size > tonumber(ARGV[5]) then return answer('large', ARGV[4], count(size)) end
local value = redis.call('HGET', VALUES, ARGV[4])
if value then return answer('ok', value) end
return answer('ok')
