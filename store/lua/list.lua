-- list.lua: reads one page of approvals, newest first within each index.
-- ARGV  first and last index (1 pending, 2 live, 3 done), where the page before stopped in the first: score, id
--       or "", limit; then the filters, "" for any: state, rule, tool, opener
-- {OK, now, how many are pending, where to go on: index or 0, score, id; then rows of {id, row, head, words}}
-- Looks at no more than 1,000 and lets time move no more than 100, so pages may be short. A cursor of score and id is
-- cheap, and true while others come and go.

local first, last, score, after, limit, state, rule, tool, opener = unpack(ARGV, 2)
first, last, limit = tonumber(first), tonumber(last), tonumber(limit)
local budget, rows, out = 1000, {}, {'OK', now, 0, 0, '', ''}

local function wanted(r)
  return (state == '' or r.st == state) and (rule == '' or r.rl == rule) and (tool == '' or r.tl == tool)
    and (opener == '' or r.op == opener)
end

local function scan(i, index)
  local at = after == '' and 0 or call('ZCOUNT', index, '(' .. score, '+inf')
  while true do
    local ids = call('ZRANGE', index, at, at + 99, 'REV', 'WITHSCORES')
    if not ids[1] then return end
    at = at + #ids / 2
    for j = 1, #ids, 2 do
      local id = ids[j]
      if after == '' or ids[j + 1] ~= score or id < after then
        if #rows == limit or budget == 0 or ticks >= 100 then
          out[4], out[5], out[6] = i, score, after
          return
        end
        local r = find(id)
        budget, score, after = budget - 1, ids[j + 1], id
        if not r or place(r) ~= index then
          call('ZREM', index, id)
          at = at - 1
        elseif wanted(r) then
          rows[#rows + 1] = {
            id, call('HGETALL', key('a', id)), call('GET', key('h', id)), call('HMGET', key('w', id), 'by', 'nt', 'sb'),
          }
        end
      end
    end
  end
end

for i = first, last do
  scan(i, ({pending, live, done})[i])
  if out[4] > 0 then break end
  score, after = '', ''
end
out[3] = call('ZCARD', pending)
for _, row in ipairs(rows) do out[#out + 1] = row end
return out
