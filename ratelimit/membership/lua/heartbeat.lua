-- Records a heartbeat of a gateway, and counts the gateways with the same prefix.
--
-- KEYS[1]  sorted set of ids of gateways; the score is the time of the last heartbeat, in ms
-- ARGV[1]  id of this gateway
-- ARGV[2]  ms without a heartbeat after which a gateway is not counted
-- Returns
--   the number of gateways, this one included
--   1 if the set lacked this one (it is new, or the set was lost), else 0
local t = redis.call('TIME')
local now, kept = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[2])
local added = redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
-- Scores in the future are from before the clock was set back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + kept, '+inf')
-- 31 days, far longer than needed: the policy volatile-ttl evicts what expires first, and must not
-- evict the set before accounts.
redis.call('PEXPIRE', KEYS[1], 2678400000)
return {redis.call('ZCARD', KEYS[1]), added}
