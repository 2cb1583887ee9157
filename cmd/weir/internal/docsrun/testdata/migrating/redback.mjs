import redback from 'redback'
import redis from 'redis'
import { promisify } from 'node:util'

const client = redis.createClient('redis://127.0.0.1:6379')
const failures = new redback.Redback(client)
  .createRateLimit('failed-logins', { bucket_interval: 5, bucket_span: 600 })
export const add = promisify(failures.add.bind(failures))
export const count = promisify(failures.count.bind(failures))
export const allow = (user) => new Promise((resolve, reject) =>
  failures.addCount(user, 60, (err, n) => err ? reject(err) : resolve(n <= 20)))
