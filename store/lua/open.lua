-- open.lua: "" -> pending; of one that it replaces, open -> void | revoked, or outcome_unknown stays. Opens an approval
-- or finds the one there.
-- ARGV  id, digest, mode, expires in ms, inline for ms, "1" if silence then denies, cap (0: none), executor, "1" if
--       discretionary, requester, session, key (hashes), how to use the key (key|join|new), opener, rule, tool, head,
--       arguments; then of the replaced one: id or "", event, state, reason, revision, by
-- {OK, id, 1 if this call or a lost twin of it opened it} | DIGEST | FULL as many pending as may be | ENDED inline, but
-- the session is over | of the replaced one MISSING, CLOSED, MOVED
-- An approval has at most one successor, which takes over its key. Nothing is pending that is not due.

local id, digest, mode, expires, inline, deny, cap, executor, discretionary, requester, session, ikey, how,
  opener, rule, tool, head, args, replaces, event, state, reason, rev, by = unpack(ARGV, 2)

local twin = call('HGET', key('a', id), 'dg')
if twin then return twin == digest and {'OK', id, 1} or {'DIGEST'} end

local old = replaces ~= '' and find(replaces)
if replaces ~= '' then
  if not old then return {'MISSING'} end
  if old.su then return {'OK', old.su, 0} end
  if state == 'outcome_unknown' then
    if old.st ~= state then return closed(old) end
  elseif not undispatched(old) or (state == 'revoked' and old.st == 'pending') then return closed(old) end
  if old.rv ~= rev then return {'MOVED'} end
  ikey = old.ik
elseif how ~= 'new' then
  local named = call('GET', key('k', ikey))
  local there = named and find(named)
  if there and how == 'key' and there.dg ~= digest then return {'DIGEST'} end
  if there and (how == 'key' or open[there.st]) then return {'OK', there.id, 0} end
end
if mode == 'inline' and over(session) then return {'ENDED'} end
cap = tonumber(cap)
if not old and cap > 0 and tonumber(call('HGET', counts, requester) or 0) >= cap then return {'FULL'} end
local ep = here()

if old then move(old, event, state, by, 'successor ' .. id, {rs = reason ~= '' and reason, su = id}) end
local row = {
  dg = digest, md = mode, cr = now, xi = expires, xp = now + expires, ep = ep, fn = 0,
  op = opener, rl = rule, tl = tool, ex = executor, rq = requester, ik = ikey,
}
if mode == 'inline' then
  row.iu = now + inline
  row.xp = deny == '1' and row.iu or row.iu + expires
  if deny == '1' then row.dn = 1 end
end
if session ~= '' then row.ss = session end
if discretionary == '1' then row.di = 1 end
if old then row.pd = old.id end
if old and state == 'outcome_unknown' then row.rr = 1 end
local refused = call('GET', key('rf', digest))
if refused then row.rf = refused end
if now - since < 900000 then row.fo = since end -- since is 0 in the first incarnation
call('MSET', key('h', id), head, key('x', id), args, key('k', ikey), id)
move({id = id, st = '', rv = 0}, 'opened', 'pending', opener, rule, row)
return {'OK', id, 1}
