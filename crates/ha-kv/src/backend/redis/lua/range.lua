-- ARGV: first key, the key after the last, most pairs, most bytes, the largest value to answer.
fault = primary()
if fault then return fault end
local most_pairs, most_bytes, largest = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local pairs_read, bytes = {}, 0

local function page()
  local from = '[' .. ARGV[4]
  while true do
    local keys = redis.call('ZRANGEBYLEX', INDEX, from, '(' .. ARGV[5], 'LIMIT', '0', count(math.min(most_pairs + 1, 128)))
    for _, key in ipairs(keys) do
      local read = #pairs_read / 2
      if read > 0 and (read >= most_pairs or bytes >= most_bytes) then return answer('ok', '1', pairs_read) end
      local size = redis.call('HSTRLEN', VALUES, key)
      if size > largest then
        if read > 0 then return answer('ok', '1', pairs_read) end
        return answer('large', key, count(size))
      end
      local value = redis.call('HGET', VALUES, key)
      if not value then return answer('torn', VALUES, 'the indexed key ' .. key, 'none') end
      pairs_read[#pairs_read + 1] = key
      pairs_read[#pairs_read + 1] = value
      bytes = bytes + #key + size
    end
    if #keys == 0 then return answer('ok', '0', pairs_read) end
    from = '(' .. keys[#keys]
  end
end

return page()
