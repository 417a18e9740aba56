-- use_grant.lua: counts one use of a grant. The caller has checked its signature, so what limits it comes from there.
-- ARGV  id, mac, expires, most uses (0: no limit), incarnation, session (hash, "" if it outlives it), policy, nonce of
--       this use, opener, digest, approval
-- {OK} | GONE not there, not the one that was checked, expired, used up or its session over | STALE | CLOCK | POLICY

local id, mac, expires, most, ep, session, policy, nonce, by, digest, approval = unpack(ARGV, 2)
local g = call('HMGET', key('g', id), 'mc', 'us', 'nc')
if g[1] ~= mac then return {'GONE'} end
if g[3] == nonce then return {'OK'} end
if now >= tonumber(expires) or over(session) then return {'GONE'} end
if tonumber(most) > 0 and tonumber(g[2] or 0) >= tonumber(most) then return {'GONE'} end
if ep ~= here() then return {'STALE'} end
if doubtful then return {'CLOCK'} end
if policy == '' or call('HGET', meta, 'ph') ~= policy then return {'POLICY'} end
call('HINCRBY', key('g', id), 'us', 1)
call('HSET', key('g', id), 'nc', nonce)
append('', 'grant_used', '', '', by, digest, id .. ' of ' .. approval)
return {'OK'}
