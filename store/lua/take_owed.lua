-- take_owed.lua: takes deliveries whose time has come, counts a try of each, and gives them to nobody else for a while.
-- ARGV  how many at most, ms
-- {OK, ms until more is due or -1, then of each: id, tries, JSON}

local most, lease = unpack(ARGV, 2)
local owed, out = prefix .. 'owed', {'OK', -1}
for _, id in ipairs(call('ZRANGE', owed, '-inf', at, 'BYSCORE', 'LIMIT', '0', most)) do
  local json = call('HGET', key('d', id), 'js')
  if json then
    call('ZADD', owed, text(now + lease), id)
    out[#out + 1] = id
    out[#out + 1] = call('HINCRBY', key('d', id), 'tr', '1')
    out[#out + 1] = json
  else call('ZREM', owed, id) end
end
local next = call('ZRANGE', owed, '0', '0', 'WITHSCORES')[2]
if next then out[2] = math.max(next - now, 0) end
return out
