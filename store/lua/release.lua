-- release.lua: leased -> approved, at its old place in the queue.
-- ARGV  id, owner, fence
-- {OK} also if that lease is over and nobody took the next | MISSING | FENCED

local id, owner, fence = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
if r.st == 'approved' and r.fn == fence then return {'OK'} end
if r.st ~= 'leased' or r.ow ~= owner or r.fn ~= fence then return {'FENCED'} end
move(r, 'released', 'approved', owner, '', {ow = false, lu = false, ln = false})
return {'OK'}
