-- prelude.lua comes before every script: keys, clock, log, and move and tick, by which alone approvals change.
-- KEYS  meta, log, pending, live, done, due, counts: see keys.go, which also says what two letters name each field of a
--       row. Keys of single records are derived from the same prefix, so they lie in the same slot.
-- ARGV  1 incarnation ("" asks the server); a script's own from 2 on. Numbers come as text, from Go.
-- Scripts return {OK, …} or {code, …} and write nothing before their last refusal but what time has settled anyway.
-- Codes mean the same everywhere; errors.go says what callers see of them:
--   MISSING  no such approval            CLOSED  its state does not take this    MOVED   not at that revision any more
--   DIGEST   of another call             STALE   of another incarnation          CLOCK   the clock is doubtful
--   FENCED   not yours, or not any more  POLICY  live replicas do not all run the caller's policy

local meta, log, pending, live, done, due, counts = unpack(KEYS)
local call = redis.call
local prefix = string.sub(meta, 1, -5)

local function key(kind, id) return prefix .. kind .. ':' .. id end

-- Redis would write numbers with 17 digits of a floating point number, which takes it longer than most commands.
local function text(v) return type(v) == 'number' and string.format('%d', v) or v end

-- The clock never runs backwards: up to 2 s behind what was seen it stands
-- still, further behind it is doubtful and nothing may be decided by it.
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local seen = call('HMGET', meta, 'seq', 'hi', 'ep', 'ea')
local seq, hi, epoch, since = tonumber(seen[1] or 0), tonumber(seen[2] or 0), seen[3], tonumber(seen[4] or 0)
local doubtful = now < hi - 2000
if not doubtful and now < hi then now = hi end
local at = text(now)

-- append writes one line of the log; seq has no gaps, whatever is trimmed. All
-- lines have the same fields in the same order, so that the stream packs them.
local function append(id, ev, from, to, by, dg, x)
  seq, hi = seq + 1, math.max(hi, now)
  local n = text(seq)
  call('HSET', meta, 'seq', n, 'hi', text(hi))
  call('XADD', log, '*', 'n', n, 'id', id, 'ev', ev, 'f', from, 't', to, 'by', by, 'at', at, 'dg', dg, 'x', x)
end

-- here returns the present incarnation of the store and notices a new one. An
-- unreadable one is an error, never a constant: two constants would be equal.
local function here()
  local ep = ARGV[1]
  if ep == '' then
    ep = string.match(call('INFO', 'replication'), 'master_replid:(%x+)') or error('master_replid is missing')
  end
  if ep ~= epoch then
    since = epoch and math.max(hi, now) or 0
    call('HSET', meta, 'ep', ep, 'ea', since)
    if epoch then append('', 'failed_over', '', '', '', '', 'incarnation ' .. ep) end
    epoch = ep
  end
  return ep
end

-- What follows from a row's state alone. A discretionary approval has ended
-- once it is approved: it authorises no call.
local open = {pending = true, approved = true, leased = true}
local at_work = {approved = live, leased = live, executing = live, outcome_unknown = live}

local function place(r) -- the index that lists it
  if r.st == 'pending' then return pending end
  if r.st == 'approved' and r.di then return done end
  return at_work[r.st] or done
end

local function undispatched(r) return open[r.st] and place(r) ~= done end

-- An executor runs what is staged; the caller who waits runs it by itself.
local function staffed(r) return r.ex ~= 'requester' and r.md == 'deferred' end

local function queue(r) -- the work queue it waits in
  if r.st == 'approved' and staffed(r) and not r.di then return key('ready', r.ex) end
end

local function deadline(r) -- when time moves it
  local d
  if r.st == 'pending' then d = r.iu or r.xp
  elseif r.st == 'approved' then d = r.rb
  elseif r.st == 'leased' then d = r.lu
  elseif r.st == 'executing' then d = r.ru end
  return tonumber(d)
end

-- move is the only way an approval changes. It sets the state and the fields of
-- set (false deletes one), raises the revision, and keeps every index true. The
-- row r must be what find returned, or {id=…, st='', rv=0} for a new one.
local function move(r, ev, to, by, x, set)
  local from, was, queued, timer = r.st, r.st ~= '' and place(r), queue(r), deadline(r)
  local put, drop, waits = {}, {}, r.md
  set.st, set.rv = to, r.rv + 1
  for f, v in pairs(set) do
    v = text(v)
    if v then put[#put + 1] = f put[#put + 1] = v elseif r[f] then drop[#drop + 1] = f end
    r[f] = v or nil
  end
  local is, row = place(r), key('a', r.id)
  if is == done then put[#put + 1] = 'en' put[#put + 1] = at end
  call('HSET', row, unpack(put))
  if drop[1] then call('HDEL', row, unpack(drop)) end

  if is ~= was then
    if was then call('ZREM', was, r.id) end
    call('ZADD', is, at, r.id)
    if is == pending then call('HINCRBY', counts, r.rq, 1) end
    if was == pending and call('HINCRBY', counts, r.rq, -1) <= 0 then call('HDEL', counts, r.rq) end
  end
  local next = deadline(r)
  if next ~= timer then
    if next then call('ZADD', due, text(next), r.id) else call('ZREM', due, r.id) end
  end
  local line = queue(r)
  if line ~= queued then
    if line then call('ZADD', line, r.dt, r.id) else call('ZREM', queued, r.id) end
  end
  if r.ss and r.md == 'inline' and from == '' then call('SADD', key('sa', r.ss), r.id) end
  if r.ss and waits == 'inline' and (r.md ~= waits or is == done) then call('SREM', key('sa', r.ss), r.id) end
  append(r.id, ev, from, to, by, r.dg, x)
end

-- postpone moves a deadline and nothing else: no revision, no line of the log, no card.
local function postpone(r, field, to)
  r[field] = text(to)
  call('HSET', key('a', r.id), field, r[field])
  call('ZADD', due, r[field], r.id)
end

-- words keeps who settled it and what was said, which may be too long for a row.
local function words(r, by, note) call('HSET', key('w', r.id), 'by', by, 'nt', note) end

-- tick makes every move that time has made due, and is the only place for them.
local ticks = 0
local function tick(r)
  local d = deadline(r)
  while d and now >= d do
    ticks = ticks + 1
    if r.st == 'pending' and r.iu and not r.dn then -- xp counts from the deadline, however late it is noticed
      move(r, 'deferred', 'pending', '', '', {md = 'deferred', iu = false})
    elseif r.st == 'pending' then move(r, 'expired', 'expired', '', '', {rs = 'expired'})
    elseif r.st == 'leased' then -- and lapses next, if its time to run is over too
      move(r, 'released', 'approved', '', 'lease ran out', {ow = false, lu = false, ln = false})
    elseif r.st == 'executing' and r.wr == '1' then move(r, 'unknown', 'outcome_unknown', '', '', {})
    elseif r.st == 'executing' then move(r, 'reported', 'executed', '', 'unreported', {oc = 'unreported'})
    else move(r, 'lapsed', 'lapsed', '', '', {rs = 'lapsed'}) end
    d = deadline(r)
  end
  return r
end

-- find reads a row as time has left it: {id=…, field=text, …}, an absent field is nil.
local function find(id)
  local flat = call('HGETALL', key('a', id))
  if not flat[1] then return nil end
  local r = {id = id}
  for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
  return tick(r)
end

local function closed(r) return {'CLOSED', r.st, r.rs or ''} end
local function over(session) return session ~= '' and call('HEXISTS', key('s', session), 'en') == 1 end
