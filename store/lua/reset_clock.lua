-- reset_clock.lua: takes the clock for true as it is, after somebody has looked why it ran back.
-- ARGV  by
-- {OK}

local was = hi
now, hi = t[1] * 1000 + math.floor(t[2] / 1000), 0
at = text(now)
append('', 'clock_reset', '', '', ARGV[2], '', 'was at ' .. was)
return {'OK'}
