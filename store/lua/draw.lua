-- draw.lua: makes a writer the only one who draws the cards of an approval for a while, or lets them go.
-- ARGV  id, writer, ms (0: lets go)
-- {OK, 1 if the cards are this writer's to draw}

local id, writer, lasts = unpack(ARGV, 2)
local held = key('cw', id)
local by = call('GET', held)
if by and by ~= writer then return {'OK', 0} end
if lasts == '0' then call('DEL', held) else call('SET', held, writer, 'PX', lasts) end
return {'OK', 1}
