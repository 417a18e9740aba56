-- once.lua: says whether this is the first time of something, in a while.
-- ARGV  what (hash), who asks: a caller who was not answered asks as the same, ms
-- {OK, 1 if it is the first time}

local what, caller, lasts = unpack(ARGV, 2)
local seen = key('o', what)
if call('SET', seen, caller, 'NX', 'PX', lasts) then return {'OK', 1} end
return {'OK', call('GET', seen) == caller and 1 or 0}
