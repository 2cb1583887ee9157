// A decision of weir serve over the protocol of Redis, with ioredis. A missing value would be the
// text "undefined", one history for all requests without a login, so it is rejected. ioredis sends a
// command again whose answer was lost; its ID has it charged once.
import { randomUUID } from 'node:crypto'
import Redis from 'ioredis'

const weir = new Redis({
  host: '127.0.0.1',
  port: 7073,
  enableAutoPipelining: true,
  commandTimeout: 250, // milliseconds
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false, // a queue would delay requests, and charge them after an outage
})
weir.on('error', (err) => console.error('weir:', err.message))

export async function check(ip) {
  if (typeof ip !== 'string' || ip === '') throw new TypeError('ip must be text')
  try {
    const [allowed, , , retryAfterMs] =
      await weir.call('WEIR.CHECK', 'search', `ip=${ip}`, 'ID', randomUUID())
    return { allowed: allowed === 1, retryAfterMs }
  } catch (err) {
    const answered = err.name === 'ReplyError' && !err.message.startsWith('UNAVAILABLE')
    if (answered) throw err // a wrong command or token
    return { allowed: false, retryAfterMs: 1000 } // the decision in an outage
  }
}
