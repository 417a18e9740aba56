-- stale.lua: lists open approvals of other incarnations than the present one.
-- ARGV  how many at most
-- {OK, id…}
-- By their score, those lie before the moment when this incarnation was first seen. Of what is at work no more than
-- 1,000 are looked at, the newest first: the old ones there are unknown outcomes.

local most = tonumber(ARGV[2])
local ep, out = here(), {'OK'}
local function collect(ids)
  for _, id in ipairs(ids) do
    local r = #out <= most and find(id)
    if r and undispatched(r) and r.ep ~= ep then out[#out + 1] = id end
  end
end
collect(call('ZRANGE', pending, '-inf', since, 'BYSCORE', 'LIMIT', 0, most))
collect(call('ZRANGE', live, since, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1000))
return out
