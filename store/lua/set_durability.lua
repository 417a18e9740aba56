-- set_durability.lua changes the level that processes must start with. Open
-- approvals of the level before become stale, as after a fail-over.
--
-- ARGV  level, by
--
-- Returns {OK}.

local level, by = unpack(ARGV, 3)

call('HSET', meta, 'level', level)
append('', 'durability', '', '', by, '', level)
return {'OK'}
