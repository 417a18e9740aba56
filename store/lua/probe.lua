-- probe.lua shows that scripts can read time and incarnation here, and checks
-- that this process fits what lies there. A new space takes what it brings.
--
-- ARGV  schema, durability level, fingerprints of the server keys, own first
--
-- Returns {OK, incarnation}, or SCHEMA, LEVEL or KEY with what lies there. The
-- own key's fingerprint is stored once a known one was there: that is a rotation.

local schema, level, own = ARGV[3], ARGV[4], ARGV[5]

local there = call('HMGET', meta, 'schema', 'level', 'key')
local known = not there[3]
for i = 5, #ARGV do known = known or ARGV[i] == there[3] end
if there[1] and there[1] ~= schema then return {'SCHEMA', there[1]} end
if there[2] and there[2] ~= level then return {'LEVEL', there[2]} end
if not known then return {'KEY', there[3]} end
local ep = here()

call('HSET', meta, 'schema', schema, 'level', level, 'key', own or '')
return {'OK', ep}
