-- Deletes the histories in KEYS (R10, R12). Its reply is their number, as text.
return tostring(redis.call('UNLINK', unpack(KEYS)))
