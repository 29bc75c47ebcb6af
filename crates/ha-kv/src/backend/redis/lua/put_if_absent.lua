-- ARGV: key, value, the lease, what the keys of leases begin with, the largest value to answer.
local key, value, lease = ARGV[4], ARGV[5], ARGV[6]
if redis.call('EXISTS', LEASE) == 0 then return primary() or answer('lease') end
local holder = redis.call('HGET', HOLDERS, key)
if redis.call('HEXISTS', VALUES, key) == 1 then
  local held = holder == lease or not holder or redis.call('EXISTS', ARGV[7] .. holder) == 1
  if held then
    local size = redis.call('HSTRLEN', VALUES, key)
    if size > tonumber(ARGV[8]) then return answer('large', key, count(size)) end
    local found = redis.call('HGET', VALUES, key)
    if holder == lease and found == value then return primary() or answer('ok') end
    return primary() or answer('held', found)
  end
end
return apply(change({key, value}, {}, lease))
