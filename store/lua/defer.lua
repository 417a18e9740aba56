-- defer.lua stops an inline approval being waited for, before its time.
--
-- ARGV  id
--
-- Returns {OK}, also if it is deferred already, or MISSING, or CLOSED.
--
-- Moves: pending -> pending, with the deadline of a deferred one from now on.

local r = find(ARGV[3])
if not r then return {'MISSING'} end
if r.st ~= 'pending' then return closed(r) end
if r.md == 'inline' then
  move(r, 'deferred', 'pending', '', '', {md = 'deferred', iu = false, xp = now + r.xi})
end
return {'OK'}
