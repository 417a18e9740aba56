-- report.lua: executing, outcome_unknown -> executed | failed. Records how a dispatch ended.
-- ARGV  id, principal, attempt ("" after a crash), person ("" unless one settles an unknown outcome), outcome, note
-- {OK} | MISSING | FENCED not the dispatched attempt | CLOSED reported otherwise before, or nothing for a person
-- The caller proved that this was approved here. If it was never dispatched here, a consume was lost with an old
-- primary: that is logged, and whatever could still run the call a second time is cancelled.

local id, principal, attempt, person, outcome, note = unpack(ARGV, 2)

local r = find(id) if not r then return {'MISSING'} end
local mine = principal == r.cp and (attempt == '' or attempt == r.at)
if person ~= '' then
  if r.st == outcome then return {'OK'} end
  if r.st ~= 'outcome_unknown' then return closed(r) end
  if note ~= '' then call('HSET', key('w', id), 'nt', note) end
  move(r, 'reported', outcome, person, 'settled by a person', {})
  return {'OK'}
end
if r.st == 'executing' or r.st == 'outcome_unknown' then
  if not mine then return {'FENCED'} end
  if note ~= '' then call('HSET', key('w', id), 'nt', note) end
  move(r, 'reported', outcome, principal, '', {oc = attempt == '' and 'reported_without_attempt'})
  return {'OK'}
end
if r.sr then
  if not mine then return {'FENCED'} end
  if r.st ~= outcome then return closed(r) end
  return {'OK'}
end

local report = outcome .. ' ' .. attempt
if r.lr == report then return {'OK'} end
call('HSET', key('a', id), 'lr', report)
append(id, 'security', '', '', principal, r.dg, 'reported ' .. outcome .. ' but ' .. r.st .. ' here')
while r do
  if undispatched(r) then
    move(r, 'cancelled', 'cancelled', principal, 'it was reported as dispatched already', {rs = 'cancelled'})
  end
  local next = r.su -- "r = r.su and …" is r itself in miniredis, a mistake of its Lua
  r = next and find(next)
end
return {'OK'}
