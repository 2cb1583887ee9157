-- Returns the identity of the store, and gives it one if it has none.
--
-- KEYS  1  the key of the identity, which never expires
-- ARGV  1  a random identity for a store without one
-- Reply    the identity

local identity = redis.call('GET', KEYS[1])
if not identity then
  identity = ARGV[1]
  redis.call('SET', KEYS[1], identity)
end
return identity
