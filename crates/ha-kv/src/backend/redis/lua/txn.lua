-- ARGV: number of compares, then '=' key value or '!' key '' each; number of puts, then key value each; then '.' key '' or
-- '[' start end for each delete.
local at = 4
local function take()
  at = at + 1
  return ARGV[at - 1]
end

for _ = 1, tonumber(take()) do
  local op = take()
  local key = take()
  local value = take()
  local found = redis.call('HGET', VALUES, key)
  if (op == '=' and found ~= value) or (op == '!' and found) then
    return primary() or answer('failed')
  end
end

local puts = {}
for _ = 1, 2 * tonumber(take()) do puts[#puts + 1] = take() end

local doomed, seen = {}, {}
local function doom(key)
  if not seen[key] then
    seen[key] = true
    doomed[#doomed + 1] = key
  end
end
while at <= #ARGV do
  local op = take()
  local key = take()
  local stop = take()
  if op == '.' then
    if redis.call('HEXISTS', VALUES, key) == 1 then doom(key) end
  else
    for _, found in ipairs(redis.call('ZRANGEBYLEX', INDEX, '[' .. key, '(' .. stop)) do doom(found) end
  end
end

if #puts == 0 and #doomed == 0 then return primary() or answer('ok', '0') end
return apply(change(puts, doomed), count(#doomed))
