-- release.lua gives a leased call back to the queue.
--
-- ARGV  id, owner, fence
--
-- Returns {OK}, also if that lease is over and nobody took the next, or MISSING,
-- or FENCED: not the present lease.
--
-- Moves: leased -> approved, at its old place in the queue.

local id, owner, fence = unpack(ARGV, 3)

local r = find(id)
if not r then return {'MISSING'} end
if r.st == 'approved' and r.fn == fence then return {'OK'} end
if r.st ~= 'leased' or r.ow ~= owner or r.fn ~= fence then return {'FENCED'} end

move(r, 'released', 'approved', owner, '', {ow = false, lu = false, ln = false})
return {'OK'}
