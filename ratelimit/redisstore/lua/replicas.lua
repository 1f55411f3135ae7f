-- Counts the gateways that use one prefix.
-- KEYS[1]: sorted set; a member is the id of a gateway, its score the server's time of the gateway's last beat in ms.
-- ARGV[1]: id of this gateway. ARGV[2]: ms without a beat after which a gateway is not counted.
-- Returns the number of gateways, this one included.
local t = redis.call('TIME')
local now, kept = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
-- A clock that was set back leaves scores in the future, which would not expire before the clock gets there.
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + kept, '+inf')
redis.call('PEXPIRE', KEYS[1], kept)
return redis.call('ZCARD', KEYS[1])
