-- renew.lua makes a lease last longer, though never beyond the time by which
-- the call had to run.
--
-- ARGV  id, owner, fence, ms
--
-- Returns {OK}, or MISSING, or FENCED: not the present lease.
--
-- Moves: leased -> leased, same fence.

local id, owner, fence, lasts = unpack(ARGV, 3)

local r = find(id)
if not r then return {'MISSING'} end
if r.st ~= 'leased' or r.ow ~= owner or r.fn ~= fence then return {'FENCED'} end

move(r, 'leased', 'leased', owner, 'renewed', {lu = math.min(now + lasts, r.rb)})
return {'OK'}
