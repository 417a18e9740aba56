-- revoke_grant.lua ends a grant.
--
-- ARGV  id, by
--
-- Returns {OK}, also if there is none (any more).

local id, by = unpack(ARGV, 3)

revoke_grant(id, by, 'revoked')
return {'OK'}
