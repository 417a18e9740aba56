-- defer.lua: pending -> pending. Stops an inline approval being waited for; its long deadline counts from now.
-- ARGV  id
-- {OK} also if it is deferred already | MISSING | CLOSED

local r = find(ARGV[2]) if not r then return {'MISSING'} end
if r.st ~= 'pending' then return closed(r) end
if r.md == 'inline' then
  move(r, 'deferred', 'pending', '', '', {md = 'deferred', iu = false, xp = now + r.xi})
end
return {'OK'}
