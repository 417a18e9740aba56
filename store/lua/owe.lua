-- owe.lua: writes down what receivers outside are owed about lines of the log, each once, and how far the log was read
-- for that.
-- ARGV  read from, read to; then of each delivery: id, approval whose callback it goes to or "", what it is (JSON)
-- {OK, how far it is read}: not to there if another reader was here since; then nothing is written

local from, to = unpack(ARGV, 2)
local told = prefix .. 'told'
local there = call('GET', told) or ''
if there ~= from then return {'OK', there} end
for i = 4, #ARGV, 3 do
  local id, of, json = unpack(ARGV, i, i + 2)
  local d = key('d', id)
  if call('HSETNX', d, 'js', json) == 1 then
    call('HSET', d, 'st', 'waiting', 'tr', '0', 'of', of)
    call('ZADD', prefix .. 'owed', at, id)
    if of ~= '' then
      call('HSET', key('cb', of), id, 'waiting 0')
      call('EXPIRE', key('cb', of), '864000')
    end
  end
end
call('SET', told, to)
return {'OK', to}
