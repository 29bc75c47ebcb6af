-- ARGV: the TTL in milliseconds, which is also what the lease holds.
if redis.call('EXISTS', LEASE) == 1 then return answer('held', '') end
return apply(function() write('SET', LEASE, ARGV[4], 'PX', ARGV[4]) end)
