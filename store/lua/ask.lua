-- ask.lua: pending -> pending, the deadline stays. Questions and answers lie in one list in the order they came, each
-- with its first letter: q<ms> <JSON>, a<text>.
-- ARGV  id, revision, by, question (JSON), most questions
-- {OK} also if it is the last one and unanswered | MISSING | CLOSED | MOVED | QUESTIONS it was asked enough

local id, rev, by, question, most = unpack(ARGV, 2)
local r = find(id) if not r then return {'MISSING'} end
local lines, asked = call('LRANGE', key('q', id), 0, -1), 0
for _, line in ipairs(lines) do
  if string.sub(line, 1, 1) == 'q' then asked = asked + 1 end
end
if string.match(lines[#lines] or '', '^q%d+ (.*)$') == question then return {'OK'} end
if r.st ~= 'pending' then return closed(r) end
if r.rv ~= rev then return {'MOVED'} end
if asked >= tonumber(most) then return {'QUESTIONS'} end
call('RPUSH', key('q', id), 'q' .. now .. ' ' .. question)
move(r, 'asked', 'pending', by, '', {})
return {'OK'}
