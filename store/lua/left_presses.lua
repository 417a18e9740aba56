-- left_presses.lua: takes presses that others have had for too long: they have died over them.
-- ARGV  channel, ms that they may have them, how many
-- {OK, presses}

local channel, idle, n = unpack(ARGV, 2)
local kept = key('pr', channel)
local left = call('ZRANGEBYSCORE', kept, '-inf', text(now - idle), 'LIMIT', '0', n)
for _, press in ipairs(left) do call('ZADD', kept, at, press) end
return {'OK', left}
