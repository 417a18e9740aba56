-- report.lua: executing, outcome_unknown -> executed | failed; executing -> outcome_unknown. How a dispatch ended.
-- ARGV  id, principal, attempt ("" after a crash), person ("" unless one settles an unknown outcome), outcome, note,
--       result
-- {OK} | MISSING | FENCED not the dispatched attempt | CLOSED reported otherwise before, or nothing for a person
-- The caller proved that this was approved here. If it was never dispatched here, a consume was lost with an old
-- primary: that is logged, and whatever could still run the call a second time is cancelled.

local id, principal, attempt, person, outcome, note, result = unpack(ARGV, 2)

local r = find(id) if not r then return {'MISSING'} end

-- It ran after all: what asks in its place must not run it a second time.
local function cancel_others()
  local other = r
  while other do
    if undispatched(other) then
      move(other, 'cancelled', 'cancelled', principal, 'it was reported as dispatched already', {rs = 'cancelled'})
    end
    local next = other.su -- "other = other.su and …" is other itself in miniredis, a mistake of its Lua
    other = next and find(next)
  end
end

local function ends(by, how, oc)
  if note ~= '' then call('HSET', key('w', id), 'nt', note) end
  if result ~= '' then call('HSET', key('w', id), 're', result) end
  if r.st == 'executing' and outcome == 'outcome_unknown' then
    move(r, 'unknown', outcome, by, how, {})
  elseif r.st ~= outcome then
    move(r, 'reported', outcome, by, how, {oc = oc})
    if outcome == 'executed' then cancel_others() end
  end
  return {'OK'}
end

local mine = principal == r.cp and (attempt == '' or attempt == r.at)
if person ~= '' then
  if r.st == outcome then return {'OK'} end
  if r.st ~= 'outcome_unknown' then return closed(r) end
  principal = person
  call('HSET', key('w', id), 'sb', person, 'nt', note) -- what the executor said stays in re
  return ends(person, 'settled by a person', 'settled')
end
if r.st == 'executing' or r.st == 'outcome_unknown' then
  if not mine then return {'FENCED'} end
  return ends(principal, '', attempt == '' and 'reported_without_attempt')
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
cancel_others()
return {'OK'}
