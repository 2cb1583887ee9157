-- Deletes the histories in KEYS (R10, R12).
return redis.call('UNLINK', unpack(KEYS))
