-- note.lua: appends a line that moves nothing.
-- ARGV  approval, event, by, digest, note, name of what is noted only once, or ""
-- {OK}

local id, event, by, digest, note, once = unpack(ARGV, 2)
if once ~= '' and call('SADD', prefix .. 'once', once) == 0 then return {'OK'} end
append(id, event, '', '', by, digest, note)
return {'OK'}
