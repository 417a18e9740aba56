-- renew.lua: leased -> leased, same fence, though never beyond the time by which the call had to run.
-- ARGV  id, owner, fence, ms
-- {OK} | MISSING | FENCED

local id, owner, fence, lasts = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
if r.st ~= 'leased' or r.ow ~= owner or r.fn ~= fence then return {'FENCED'} end
move(r, 'leased', 'leased', owner, 'renewed', {lu = math.min(now + lasts, r.rb)})
return {'OK'}
