-- vote.lua: pending -> pending | approved | denied; approved, leased -> revoked. Records a vote and what it settles.
-- Counting needs the server key, so it happens outside, and this compares the revision that was counted and sets.
-- ARGV  id, revision, digest shown, voter's identity, hash of nonce and choice, vote (JSON), settles ("" | approved |
--       denied | revoked), run for ms, name of the voter, their words, note for the log, "1" if grants that came of it
--       end; then the grant to make: id or "", JSON, mac, expires, requester, session ("" if it outlives it)
-- {OK, 1 if the grant was not made because the session is over} | MISSING | MOVED | CLOSED | DIGEST | STALE | CLOCK
-- The same press under the same identity is recorded once, whatever happened since.

local id, rev, digest, voter, press, vote, settles, run, by, said, x, ends,
  grant, json, mac, expires, requester, session = unpack(ARGV, 2)

local r = find(id) if not r then return {'MISSING'} end
local before = call('HGET', key('v', id), voter)
local presses = before and string.match(before, '^%S+') or ''
if string.find(presses, press, 1, true) then return {'OK', r.se or 0} end
if r.rv ~= rev then return {'MOVED'} end
if settles == 'revoked' then
  if r.st == 'pending' or not undispatched(r) then return closed(r) end
elseif r.st ~= 'pending' then return closed(r) end
if r.dg ~= digest then return {'DIGEST'} end
local ep = here()
if r.ep ~= ep then return {'STALE'} end
if doubtful then return {'CLOCK'} end

call('HSET', key('v', id), voter, press .. (presses ~= '' and ',' .. presses or '') .. ' ' .. vote)
if settles == '' then
  move(r, 'voted', 'pending', by, x, {})
  return {'OK', 0}
end
words(r, by, said)
if settles == 'denied' then
  call('SET', key('rf', digest), id, 'PX', 604800000) -- a week: whoever is asked about the same call then hears of it
  move(r, 'decided', settles, by, x, {dt = now, rs = 'denied'})
elseif settles == 'revoked' then
  if ends == '1' and r.gi then revoke_grant(r.gi, by, 'with ' .. id) end
  move(r, 'revoked', settles, by, x, {rs = 'revoked'})
else
  local set = {dt = now}
  if not r.di then set.rb = now + run end
  if grant ~= '' and over(session) then set.se = 1 elseif grant ~= '' then set.gi = grant end
  move(r, 'decided', settles, by, x, set)
  if set.gi then
    put_grant(grant, json, mac, expires, requester, session)
    append(id, 'granted', '', '', by, digest, grant)
  end
end
return {'OK', r.se or 0}
