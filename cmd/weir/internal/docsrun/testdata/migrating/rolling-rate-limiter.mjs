import Redis from 'ioredis'
import { RedisRateLimiter } from 'rolling-rate-limiter'

const limiter = new RedisRateLimiter({
  client: new Redis('redis://127.0.0.1:6379'),
  namespace: 'search:',
  interval: 60_000,
  maxInInterval: 20,
})
export const allow = async (user) => !await limiter.limit(user)
