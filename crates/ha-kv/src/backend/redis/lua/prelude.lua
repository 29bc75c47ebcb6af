-- What every script begins with. Nothing is written before check() and everything after it have passed; reads raise, which is
-- before the first write; writes go through write(), which says whether it was the first.
-- KEYS: values (hash), index (sorted set, all scores 0), meta (hash), holders (hash: key -> lease), role probe, lease.
-- ARGV: nonce, the store's id as the client knows it ('' if it does not), an id for a new store, then the script's own.
-- Numbers of the store are text; the few Lua numbers here count what is in memory.
local NONCE, KNOWN, CANDIDATE = ARGV[1], ARGV[2], ARGV[3]
local VALUES, INDEX, META, HOLDERS, PROBE, LEASE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local FORMAT = '1'
local id = ''
local first_write = true
local begun = false

local function answer(status, ...)
  return {NONCE, id, status, ...}
end

local function count(number)
  return string.format('%.0f', number)
end

-- The answer that says what is wrong with the store, or nothing.
local function check()
  local kinds = {'hash', 'zset', 'hash', 'hash', 'none', 'string'}
  for at = 1, #KEYS do
    local found = redis.call('TYPE', KEYS[at]).ok
    if found ~= 'none' and found ~= kinds[at] then
      return answer('type', KEYS[at], kinds[at], found)
    end
  end
  local meta = redis.call('HMGET', META, 'store', 'format', 'keys', 'leased')
  local values = count(redis.call('HLEN', VALUES))
  local index = count(redis.call('ZCARD', INDEX))
  local holders = count(redis.call('HLEN', HOLDERS))
  if not meta[1] then
    if KNOWN ~= '' then return answer('lost', KNOWN, 'no store') end
    if values ~= '0' or index ~= '0' or holders ~= '0' or redis.call('EXISTS', META) == 1 then
      return answer('torn', META, 'an id', 'none', values, index, holders)
    end
    return nil
  end
  id = meta[1]
  if KNOWN ~= '' and KNOWN ~= id then return answer('lost', KNOWN, id) end
  if meta[2] ~= FORMAT then return answer('format', META, FORMAT, meta[2] or 'none') end
  if meta[3] ~= values then return answer('torn', VALUES, meta[3] or 'none', values) end
  if meta[3] ~= index then return answer('torn', INDEX, meta[3] or 'none', index) end
  if meta[4] ~= holders then return answer('torn', HOLDERS, meta[4] or 'none', holders) end
  return nil
end

-- A server that became a replica would go on answering reads, from the past. Removing a key that is never there changes nothing and
-- is refused there; what else stands in the way of writes is no matter of a read.
local function primary()
  local reply = redis.pcall('DEL', PROBE)
  if type(reply) == 'table' and reply.err and string.find(reply.err, 'READONLY', 1, true) then
    return answer('refused', reply.err)
  end
  return nil
end

-- A write. Whatever fails is thrown to apply().
local function write(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    error({refused = reply.err})
  end
  first_write = false
  return reply
end

-- Runs the writes and gives the answer: done, or which write failed. Before the write that begins a store there was nothing, so what
-- came of it can be taken away whole: the first write of a user who lacks a right leaves no torn store behind.
local function apply(writes, ...)
  local done, fault = pcall(writes)
  if done then return answer('ok', ...) end
  local text = type(fault) == 'table' and fault.refused or tostring(fault)
  if begun then
    local undone = redis.pcall('DEL', VALUES, INDEX, META, HOLDERS)
    if type(undone) == 'number' then
      first_write, id = true, ''
    end
  end
  return answer(first_write and 'refused' or 'partial', text)
end

-- Removes members of a hash or a sorted set, some at a time: what unpack() takes is limited.
local function remove(command, key, members)
  for from = 1, #members, 100 do
    write(command, key, unpack(members, from, math.min(from + 99, #members)))
  end
end

-- Sets and removes keys. `puts` holds keys and values in turn, `doomed` keys that exist; `lease` is the lease of what is set, if any.
-- The first command is one that a full server refuses exactly if something is set.
local function change(puts, doomed, lease)
  local added, freed = {}, {}
  local leased = 0
  for at = 1, #puts, 2 do
    local key = puts[at]
    if redis.call('HEXISTS', VALUES, key) == 0 then added[#added + 1] = key end
    local held = redis.call('HEXISTS', HOLDERS, key) == 1
    if lease and not held then leased = leased + 1 end
    if held and not lease then freed[#freed + 1] = key end
  end
  for _, key in ipairs(doomed) do
    if redis.call('HEXISTS', HOLDERS, key) == 1 then freed[#freed + 1] = key end
  end
  return function()
    if id == '' then
      write('HSET', META, 'store', CANDIDATE, 'format', FORMAT, 'keys', '0', 'leased', '0', 'changes', '0')
      id, begun = CANDIDATE, true
    end
    for at = 1, #puts, 2 do
      write('HSET', VALUES, puts[at], puts[at + 1])
      if lease then write('HSET', HOLDERS, puts[at], lease) end
    end
    for _, key in ipairs(added) do write('ZADD', INDEX, '0', key) end
    remove('HDEL', VALUES, doomed)
    remove('ZREM', INDEX, doomed)
    remove('HDEL', HOLDERS, freed)
    write('HINCRBY', META, 'keys', count(#added - #doomed))
    write('HINCRBY', META, 'leased', count(leased - #freed))
    write('HINCRBY', META, 'changes', '1')
  end
end

local fault = check()
if fault then return fault end
