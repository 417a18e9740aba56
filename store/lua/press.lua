-- press.lua: keeps what was pressed in a chat until it is decided, for half an hour at most.
-- ARGV  channel, what was pressed
-- {OK}
-- Its score is when somebody took it last.

local channel, press = unpack(ARGV, 2)
local kept = key('pr', channel)
call('ZADD', kept, at, press)
call('EXPIRE', kept, '1800')
return {'OK'}
