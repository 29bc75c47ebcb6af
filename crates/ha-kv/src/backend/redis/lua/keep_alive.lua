-- No ARGV of its own: the lease holds its TTL.
local ttl = redis.call('GET', LEASE)
if not ttl then return primary() or answer('lease') end
return apply(function() write('PEXPIRE', LEASE, ttl) end)
