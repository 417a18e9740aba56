-- put_bypass.lua lets a session's calls pass without asking, for a while.
--
-- ARGV  session (hash), bypass (JSON), until (ms of the clock), by, note
--
-- Returns {OK}, or ENDED: the session is over. An end in the past takes an
-- earlier bypass away.

local session, json, till, by, note = unpack(ARGV, 3)

if over(session) then return {'ENDED'} end

local s = key('s', session)
if tonumber(till) > now then
  call('HSET', s, 'bj', json, 'bu', till)
  call('PEXPIRE', s, till - now)
else
  call('DEL', s)
end
append('', 'session_bypass', '', '', by, '', note)
return {'OK'}
