-- put_grant.lua: replaces a grant by the same one signed anew, after somebody looked at it. Its uses stay counted.
-- ARGV  id, JSON, mac, expires, requester, session ("" if it outlives it), by, approval
-- {OK} also if it is there already | GONE there is none to replace, or its session is over

local id, json, mac, expires, requester, session, by, approval = unpack(ARGV, 2)
local there = call('HGET', key('g', id), 'mc')
if not there or over(session) then return {'GONE'} end
if there ~= mac then
  put_grant(id, json, mac, expires, requester, session)
  append('', 'granted', '', '', by, '', id .. ' of ' .. approval .. ' confirmed')
end
return {'OK'}
