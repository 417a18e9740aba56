-- set_durability.lua: changes the level that processes must start with. What is open becomes stale, as by a fail-over.
-- ARGV  level, by
-- {OK}

local level, by = unpack(ARGV, 2)
call('HSET', meta, 'level', level)
append('', 'durability', '', '', by, '', level)
return {'OK'}
