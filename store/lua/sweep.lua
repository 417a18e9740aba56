-- sweep.lua settles what time has made due, and forgets what was kept enough.
--
-- ARGV  how many of each at most
--
-- Returns {OK, how many settled, ms until the next is due or -1}.
--
-- Moves: those of tick and no other; whoever looks at an approval first makes
-- them, so nothing depends on when or whether this runs.

local most = tonumber(ARGV[3])

local ids = call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)
for _, id in ipairs(ids) do
  local r = find(id)
  local d = r and deadline(r)
  if not r then call('ZREM', pending, id) call('ZREM', live, id) end
  if not d then call('ZREM', due, id) elseif r.rv == tostring(r.rv) then call('ZADD', due, d, id) end
end
local old = call('ZRANGE', done, '-inf', now - retention, 'BYSCORE', 'LIMIT', 0, most)
if old[1] then call('ZREM', done, unpack(old)) end
for _, id in ipairs(call('ZRANGE', prefix .. 'grants', '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do end_grant(id) end

local next = call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {'OK', ticks, next[1] and math.max(next[2] - now, 0) or -1}
