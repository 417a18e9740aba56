-- end_session.lua: its inline pending -> cancelled, approved, leased -> revoked; its grants and its bypass end.
-- ARGV  session (hash), by, note, ms to remember
-- {OK, how many are left}: up to 100 a call, so call it again until there are none
-- From the first call on nothing new can hang on the session.

local session, by, note, remember = unpack(ARGV, 2)
local s = key('s', session)
if not over(session) then
  call('HSET', s, 'en', now)
  call('PEXPIRE', s, remember)
  append('', 'session_ended', '', '', by, '', note)
end
local held = key('sa', session)
for _, id in ipairs(call('SPOP', held, 100)) do
  local r = find(id)
  if not r then revoke_grant(id, by, 'session ended')
  elseif undispatched(r) then
    words(r, by, 'session ended')
    if r.st == 'pending' then move(r, 'cancelled', 'cancelled', by, 'session ended', {rs = 'cancelled'})
    else move(r, 'revoked', 'revoked', by, 'session ended', {rs = 'revoked'}) end
  end
end
return {'OK', call('SCARD', held)}
