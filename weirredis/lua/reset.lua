-- Weir: forgets histories (R10).
--
-- KEYS   the histories
-- reply  empty
redis.call('UNLINK', unpack(KEYS))
return ''
