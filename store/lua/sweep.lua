-- sweep.lua: the moves of tick and no other; whoever looks at an approval first makes them, so nothing depends on when
-- or whether this runs. Also forgets what was kept long enough, and puts right an index that disagrees with its row.
-- ARGV  how many of each at most, retention in ms
-- {OK, how many settled, ms until there is more to do or -1}
-- What is forgotten goes whole, and its idempotency key with it unless a successor has that.

local most, retention = tonumber(ARGV[2]), tonumber(ARGV[3])
for _, id in ipairs(call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do
  local before = ticks
  local r = find(id)
  local d = r and deadline(r)
  if not r then call('ZREM', pending, id) call('ZREM', live, id) end
  if not d then call('ZREM', due, id) elseif ticks == before then call('ZADD', due, d, id) end
end
local old = call('ZRANGE', done, '-inf', now - retention, 'BYSCORE', 'LIMIT', 0, most)
for _, id in ipairs(old) do
  local ik = key('k', call('HGET', key('a', id), 'ik') or '')
  if call('GET', ik) == id then call('UNLINK', ik) end
  call('UNLINK', key('a', id), key('h', id), key('x', id), key('v', id), key('q', id), key('w', id), key('c', id))
  call('ZREM', done, id)
end
for _, id in ipairs(call('ZRANGE', prefix .. 'grants', '-inf', now, 'BYSCORE', 'LIMIT', 0, most)) do end_grant(id) end
local next = call('ZRANGE', due, 0, 0, 'WITHSCORES')
if #old == most then next[2] = now end
return {'OK', ticks, next[2] and math.max(next[2] - now, 0) or -1}
