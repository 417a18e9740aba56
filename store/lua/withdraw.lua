-- withdraw.lua: pending, approved, leased -> cancelled | void; approved, leased -> revoked.
-- ARGV  id, event, state, reason, by, note
-- {OK} also if it ended so before | MISSING | CLOSED dispatched, ended otherwise, or not approved and so not to revoke
-- A revoked approval takes the grant that came of it along.

local id, event, state, reason, by, note = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
if r.st == state and r.rs == reason then return {'OK'} end
if not undispatched(r) or (state == 'revoked' and r.st == 'pending') then return closed(r) end
words(r, by, note)
if state == 'revoked' and r.gi then revoke_grant(r.gi, by, 'with ' .. id) end
move(r, event, state, by, reason .. ' ' .. note, {rs = reason})
return {'OK'}
