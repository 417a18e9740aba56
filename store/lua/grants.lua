-- grants.lua: reads a page of all live grants, the first to expire first.
-- ARGV  how many to skip, how many at most
-- {OK, then JSON and uses of each}

local skip, most = unpack(ARGV, 2)
local out = {'OK'}
local ids = call('ZRANGE', prefix .. 'grants', '(' .. now, '+inf', 'BYSCORE', 'LIMIT', skip, most)
for _, id in ipairs(ids) do
  local g = call('HMGET', key('g', id), 'js', 'us')
  if g[1] then out[#out + 1] = g[1] out[#out + 1] = g[2] or '0' end
end
return out
