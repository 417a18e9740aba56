-- get.lua: reads an approval with all its parts, as time has left it.
-- ARGV  id
-- {OK, now, incarnation, 1 if the clock is doubtful, row, head, arguments, votes, questions, words} | MISSING

local id = ARGV[2]
if not find(id) then return {'MISSING'} end
return {
  'OK', now, here(), doubtful and 1 or 0,
  call('HGETALL', key('a', id)), call('GET', key('h', id)), call('GET', key('x', id)), call('HVALS', key('v', id)),
  call('LRANGE', key('q', id), 0, -1), call('HMGET', key('w', id), 'by', 'nt', 'sb', 're'),
}
