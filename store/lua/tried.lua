-- tried.lua: says how the latest try of a delivery ended.
-- ARGV  id, which try, what it is now (waiting|delivered|dead), tries that count, ms until the next, ms to remember it
-- {OK, how many are dead} also of a try that is not the latest, which changes nothing

local id, try, state, tries, rest, remember = unpack(ARGV, 2)
local d, owed, dead = key('d', id), prefix .. 'owed', prefix .. 'dead'
local was = call('HMGET', d, 'st', 'tr', 'of')
if was[1] == 'waiting' and was[2] == try then
  call('HSET', d, 'st', state, 'tr', tries)
  if state == 'waiting' then call('ZADD', owed, text(now + rest), id)
  else
    call('ZREM', owed, id)
    call('PEXPIRE', d, remember)
    if state == 'dead' then call('ZADD', dead, at, id) end
  end
  if was[3] ~= '' then
    call('HSET', key('cb', was[3]), id, state .. ' ' .. tries)
    call('EXPIRE', key('cb', was[3]), '864000')
  end
end
call('ZREMRANGEBYSCORE', dead, '-inf', text(now - remember))
return {'OK', call('ZCARD', dead)}
