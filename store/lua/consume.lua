-- consume.lua: approved -> executing for the requester; of a staged call with an executor, leased -> executing for it.
-- At most one attempt ever gets a yes; a refused one burns nothing.
-- ARGV  id, revision, digest of the call about to run, principal, attempt, fence, policy, "1" if an outcome will be
--       reported, report in ms, replay window in ms
-- {OK, started, 1 if the same attempt asks again} | MISSING | CLOSED not approved, dispatched already, or asked again
-- too late | FENCED | MOVED other votes were counted than there are now | DIGEST | STALE | CLOCK | POLICY

local id, rev, digest, principal, attempt, fence, policy, reports, within, window = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
if r.st == 'executing' and r.at == attempt and r.dg == digest and r.cp == principal
  and now - r.sr <= tonumber(window) then return {'OK', r.sr, 1} end
if r.st == 'pending' or not undispatched(r) then return closed(r) end
if not staffed(r) then
  if principal ~= r.op then return {'FENCED'} end
elseif principal ~= r.ow or fence ~= r.fn then return {'FENCED'} end -- only a leased one has an owner
if r.rv ~= rev then return {'MOVED'} end
if r.dg ~= digest then return {'DIGEST'} end
if r.ep ~= here() then return {'STALE'} end
if doubtful then return {'CLOCK'} end
if policy == '' or call('HGET', meta, 'ph') ~= policy then return {'POLICY'} end
move(r, 'consumed', 'executing', principal, 'attempt ' .. attempt,
  {at = attempt, cp = principal, sr = now, ru = now + within, wr = reports})
return {'OK', now, 0}
