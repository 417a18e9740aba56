-- note.lua: appends a line that moves nothing.
-- ARGV  approval, event, by, digest, note
-- {OK}

local id, event, by, digest, note = unpack(ARGV, 3)
append(id, event, '', '', by, digest, note)
return {'OK'}
