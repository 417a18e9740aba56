-- ask.lua records an approver's question. Questions and answers lie in one list
-- in the order they came, each with its first letter: q<ms> <JSON>, a<text>.
--
-- ARGV  id, revision, by, question (JSON), most questions
--
-- Returns {OK}, also if it is the last one and still unanswered, or
--   MISSING, CLOSED, MOVED
--   QUESTIONS   it was asked enough
--
-- Moves: pending -> pending. The deadline stays.

local id, rev, by, question, most = unpack(ARGV, 3)

local r = find(id)
if not r then return {'MISSING'} end
local list = key('q', id)
local asked = 0
local last
for _, line in ipairs(call('LRANGE', list, 0, -1)) do
  if string.sub(line, 1, 1) == 'q' then asked = asked + 1 end
  last = line
end
if last and string.match(last, '^q%d+ (.*)$') == question then return {'OK'} end
if r.st ~= 'pending' then return closed(r) end
if moved(r, rev) then return {'MOVED'} end
if asked >= tonumber(most) then return {'QUESTIONS'} end

call('RPUSH', list, 'q' .. now .. ' ' .. question)
move(r, 'asked', 'pending', by, '', {})
return {'OK'}
