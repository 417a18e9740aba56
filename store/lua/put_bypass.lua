-- put_bypass.lua: lets a session's calls pass without asking for a while; an end in the past takes that away.
-- ARGV  session (hash), bypass (JSON), until in ms of the clock, by, note
-- {OK} | ENDED the session is over

local session, json, till, by, note = unpack(ARGV, 2)
if over(session) then return {'ENDED'} end
call('HSET', key('s', session), 'bj', json, 'bu', till)
call('PEXPIRE', key('s', session), till - now)
append('', 'session_bypass', '', '', by, '', note)
return {'OK'}
