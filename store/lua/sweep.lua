-- sweep.lua: the moves of tick and no other; whoever looks at an approval first makes them, so nothing depends on when
-- or whether this runs. Also forgets what was kept long enough, and puts right an index that disagrees with its row.
-- ARGV  how many of each at most
-- {OK, how many settled, ms until the next is due or -1}

local most = tonumber(ARGV[3])
for _, id in ipairs(call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do
  local before = ticks
  local r = find(id)
  local d = r and deadline(r)
  if not r then call('ZREM', pending, id) call('ZREM', live, id) end
  if not d then call('ZREM', due, id) elseif ticks == before then call('ZADD', due, d, id) end
end
local old = call('ZRANGE', done, '-inf', now - retention, 'BYSCORE', 'LIMIT', 0, most)
if old[1] then call('ZREM', done, unpack(old)) end
for _, id in ipairs(call('ZRANGE', prefix .. 'grants', '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do end_grant(id) end
local next = call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {'OK', ticks, next[1] and math.max(next[2] - now, 0) or -1}
