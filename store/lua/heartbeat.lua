-- heartbeat.lua: says which policy a replica runs. What all live ones agree on, or "" while they do not, is what
-- consume and use_grant compare with: a replica that slept through a reload spends nothing.
-- ARGV  replica, policy, ms after which a silent replica is gone
-- {OK, how many other policies live replicas run, now}

local replica, policy, patience = unpack(ARGV, 2)
local beats, others, n = prefix .. 'replicas', {}, 0
call('HSET', beats, replica, now .. ' ' .. policy)
local all = call('HGETALL', beats)
for i = 1, #all, 2 do
  local at, theirs = string.match(all[i + 1], '^(%d+) (.*)$')
  if now - at > tonumber(patience) then
    call('HDEL', beats, all[i])
  elseif theirs ~= policy and not others[theirs] then
    others[theirs], n = true, n + 1
  end
end
call('HSET', meta, 'ph', n == 0 and policy or '')
return {'OK', n, now}
