-- turn.lua: takes the next turn in a conversation, where one comes every so often and some may come at once.
-- ARGV  conversation (hash), ms between turns, how many at once, ms for which all wait (0: this is a turn)
-- {OK, ms to wait, 0 if the turn is taken}
-- What is kept is when all turns taken so far would be over if they had come one by one.

local conversation, every, burst, pause = unpack(ARGV, 2)
local turns, paused = key('t', conversation), key('tp', conversation)
local rest = call('PTTL', paused)
if tonumber(pause) > 0 then
  if rest < tonumber(pause) then call('SET', paused, '', 'PX', pause) end
  return {'OK', 0}
end
local over = math.max(tonumber(call('GET', turns) or 0), now)
local wait = math.max(rest, over - now - every * (burst - 1))
if wait > 0 then return {'OK', wait} end
call('SET', turns, text(over + every), 'PX', text(over + every - now))
return {'OK', 0}
