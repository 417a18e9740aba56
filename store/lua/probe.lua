-- probe.lua: shows that scripts can read time and incarnation, and that this process fits what lies here. A new space
-- takes what the process brings. Another known server key is a rotation: its own is stored from then on.
-- ARGV  schema, durability level, fingerprints of the server keys, own first
-- {OK} | SCHEMA, LEVEL, KEY with what lies here

local schema, level, own = unpack(ARGV, 2)
local there = call('HMGET', meta, 'schema', 'level', 'key')
local known = not there[3]
for i = 4, #ARGV do known = known or ARGV[i] == there[3] end
if there[1] and there[1] ~= schema then return {'SCHEMA', there[1]} end
if there[2] and there[2] ~= level then return {'LEVEL', there[2]} end
if not known then return {'KEY', there[3]} end
here()
call('HSET', meta, 'schema', schema, 'level', level)
if own then call('HSET', meta, 'key', own) end
return {'OK'}
