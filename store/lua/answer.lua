-- answer.lua: pending -> pending, the deadline stays. Records the agent's reply to what it was asked.
-- ARGV  id, revision, text
-- {OK} also if it is what was answered last | MISSING | CLOSED | MOVED | UNASKED no question waits

local id, rev, text = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
local last = call('LINDEX', key('q', id), -1)
if last == 'a' .. text then return {'OK'} end
if r.st ~= 'pending' then return closed(r) end
if r.rv ~= rev then return {'MOVED'} end
if not last or string.sub(last, 1, 1) ~= 'q' then return {'UNASKED'} end
call('RPUSH', key('q', id), 'a' .. text)
move(r, 'answered', 'pending', r.op, '', {})
return {'OK'}
