-- prelude_grants.lua comes after the prelude of the scripts by which grants come and go.
-- ARGV  nothing of its own
-- A grant ends by vanishing: what is not there permits nothing.

local function put_grant(id, json, mac, expires, requester, session)
  call('HSET', key('g', id), 'js', json, 'mc', mac, 'xp', expires, 'rq', requester, 'ss', session)
  call('ZADD', prefix .. 'grants', expires, id)
  call('SADD', key('gr', requester), id)
  if session ~= '' then call('SADD', key('sa', session), id) end
end

local function end_grant(id)
  local g = call('HMGET', key('g', id), 'rq', 'ss')
  if not g[1] then return false end
  call('DEL', key('g', id))
  call('ZREM', prefix .. 'grants', id)
  call('SREM', key('gr', g[1]), id)
  if g[2] ~= '' then call('SREM', key('sa', g[2]), id) end
  return true
end

local function revoke_grant(id, by, why)
  if end_grant(id) then append('', 'grant_revoked', '', '', by, '', id .. ' ' .. why) end
end
