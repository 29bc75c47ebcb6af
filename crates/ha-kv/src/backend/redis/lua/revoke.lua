-- ARGV: the lease.
local doomed = {}
local holders = redis.call('HGETALL', HOLDERS)
for at = 1, #holders, 2 do
  if holders[at + 1] == ARGV[4] then doomed[#doomed + 1] = holders[at] end
end
local lives = redis.call('EXISTS', LEASE) == 1
if not lives and #doomed == 0 then return primary() or answer('ok') end
local changes = change({}, doomed)
return apply(function()
  if #doomed > 0 then changes() end
  if lives then write('DEL', LEASE) end
end)
