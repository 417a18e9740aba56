-- revoke_grant.lua: ends a grant.
-- ARGV  id, by
-- {OK} also if there is none any more

revoke_grant(ARGV[2], ARGV[3], 'revoked')
return {'OK'}
