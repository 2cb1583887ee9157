-- reset deletes histories (R10).
--
-- KEYS   the histories.
-- ARGV   none.
-- reply  empty.
redis.call('UNLINK', unpack(KEYS))
return ''
