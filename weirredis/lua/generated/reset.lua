-- reset deletes histories (R10).
--
-- KEYS   the histories, of all kinds (R12).
-- ARGV   none.
-- reply  empty.
redis.call('UNLINK', unpack(KEYS))
return ''
