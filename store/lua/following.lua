-- following.lua: notes that a replica follows the log for cards, and tells which have not for long.
-- ARGV  replica, for how many ms a replica must have been silent
-- {OK, of each that was: replica, for how many ms}

local replica, idle = unpack(ARGV, 2)
local followers = prefix .. 'followers'
call('HSET', followers, replica, at)
local all, silent = call('HGETALL', followers), {}
for i = 1, #all, 2 do
  local rest = now - all[i + 1]
  if all[i] ~= replica and rest >= tonumber(idle) then
    silent[#silent + 1] = all[i]
    silent[#silent + 1] = text(rest)
  end
end
return {'OK', silent}
