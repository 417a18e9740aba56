-- reset_clock.lua takes the clock for true as it is, after somebody has looked
-- why it ran back. What is due by it is due.
--
-- ARGV  by
--
-- Returns {OK}.

local by = ARGV[3]

local was = hi
now, hi = t[1] * 1000 + math.floor(t[2] / 1000), 0
append('', 'clock_reset', '', '', by, '', 'was at ' .. was)
return {'OK'}
