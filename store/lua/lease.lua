-- lease.lua: approved -> leased. Gives the oldest approved call of an executor to a worker.
-- ARGV  executor, owner, hash of executor, owner and nonce, ms
-- {OK, id, fence} with id "" if there is none | CLOCK
-- Each lease has a higher fence than the one before; the same nonce gets its lease again while that lasts. What cannot
-- be leased any more, such as a call of another incarnation, leaves the queue.

local executor, owner, nonce, lasts = unpack(ARGV, 2)
local memo = key('l', nonce)
local mine = call('GET', memo)
local r = mine and find(mine)
if r and r.st == 'leased' and r.ln == nonce then return {'OK', r.id, r.fn} end
if doubtful then return {'CLOCK'} end
local ep = here()
for _, id in ipairs(call('ZRANGE', due, '-inf', now, 'BYSCORE', 'LIMIT', 0, 64)) do find(id) end -- leases that ran out
local line = key('ready', executor)
for _, id in ipairs(call('ZRANGE', line, 0, 99)) do
  r = find(id)
  if r and r.st == 'approved' and r.ep == ep then
    local fence, ends = r.fn + 1, math.min(now + lasts, r.rb)
    call('SET', memo, id, 'PX', lasts)
    move(r, 'leased', 'leased', owner, 'fence ' .. fence, {fn = fence, ow = owner, ln = nonce, lu = ends})
    return {'OK', id, fence}
  end
  call('ZREM', line, id)
end
return {'OK', '', 0}
