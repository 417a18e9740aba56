-- renew.lua: a sign of life. Of a leased call the lease lasts longer, though never beyond the time by which it had to
-- run; of a dispatched one the time until its outcome is unknown.
-- ARGV  id, owner, fence, ms from now, ms from the dispatch at most
-- {OK, until} | MISSING | FENCED

local id, owner, fence, lasts, most = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
if r.ow ~= owner or r.fn ~= fence then return {'FENCED'} end
if r.st == 'leased' then
  postpone(r, 'lu', math.min(now + lasts, r.rb))
  return {'OK', r.lu}
elseif r.st == 'executing' then
  postpone(r, 'ru', math.min(now + lasts, r.sr + most))
  return {'OK', r.ru}
end
return {'FENCED'}
