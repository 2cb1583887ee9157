-- Decides the requests of a script that has only attempts, peeks, probes and records: those that
-- plain.lua leaves, or all.
answer(decide)
return table.concat(replies)
