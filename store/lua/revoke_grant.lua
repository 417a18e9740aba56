-- revoke_grant.lua: ends a grant.
-- ARGV  id, by
-- {OK} also if there is none any more

revoke_grant(ARGV[3], ARGV[4], 'revoked')
return {'OK'}
