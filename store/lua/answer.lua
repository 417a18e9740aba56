-- answer.lua records the agent's reply to what it was asked.
--
-- ARGV  id, revision, text
--
-- Returns {OK}, also if it is what was answered last, or
--   MISSING, CLOSED, MOVED
--   UNASKED   no question waits
--
-- Moves: pending -> pending. The deadline stays; a late answer is refused.

local id, rev, text = unpack(ARGV, 3)

local r = find(id)
if not r then return {'MISSING'} end
local list = key('q', id)
local last = call('LINDEX', list, -1)
if last == 'a' .. text then return {'OK'} end
if r.st ~= 'pending' then return closed(r) end
if moved(r, rev) then return {'MOVED'} end
if not last or string.sub(last, 1, 1) ~= 'q' then return {'UNASKED'} end

call('RPUSH', list, 'a' .. text)
move(r, 'answered', 'pending', r.op, '', {})
return {'OK'}
