-- standing.lua: reads what holds for a requester beyond one approval.
-- ARGV  requester, session (hashes; session "" if it has none)
-- {OK, now, incarnation, bypass (JSON) or "", then JSON and uses of each live grant}

local requester, session = unpack(ARGV, 2)
local out = {'OK', now, here(), ''}
if session ~= '' then
  local s = call('HMGET', key('s', session), 'en', 'bj', 'bu')
  if not s[1] and s[2] and now < tonumber(s[3]) then out[4] = s[2] end
end
for _, id in ipairs(call('SMEMBERS', key('gr', requester))) do
  local g = call('HMGET', key('g', id), 'js', 'us', 'xp')
  if g[1] and now < tonumber(g[3]) then out[#out + 1] = g[1] out[#out + 1] = g[2] or '0' end
end
return out
