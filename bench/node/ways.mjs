// The ways in which an application asks. Each returns take(user), which resolves to whether it is
// allowed.
import { randomUUID } from 'node:crypto'
import { Weir } from '../../clients/node/index.mjs'

export const waysOf = (require) => ({
  // Express alone.
  'none': async () => ({ take: async () => true }),

  'weirlimit': async () => {
    const limiter = new Weir({
      url: `redis://${process.env.WEIR_RESP}`,
      timeout: 5000,
      totalTimeout: 10_000,
    }).policy('users')
    return { take: async (user) => (await limiter.take({ user })).allowed }
  },

  'weirlimit over HTTP': async () => {
    const limiter = new Weir({
      url: `http://${process.env.WEIR_HTTP}`,
      timeout: 5000,
      totalTimeout: 10_000,
    }).policy('users')
    return { take: async (user) => (await limiter.take({ user })).allowed }
  },

  // The client of docs/resp.md: one command of a Redis client.
  'ioredis': async () => {
    const Redis = require('ioredis').default
    const [host, port] = process.env.WEIR_RESP.split(':')
    const weir = new Redis({
      host,
      port: Number(port),
      enableAutoPipelining: true,
      commandTimeout: 5000,
      maxRetriesPerRequest: 1,
    })
    return {
      take: async (user) =>
        (await weir.call('WEIR.CHECK', 'users', `user=${user}`, 'ID', randomUUID()))[0] === 1,
    }
  },

  // rate-limiter-flexible with its Redis store.
  'rate-limiter-flexible': async () => {
    const Redis = require('ioredis').default
    const { RateLimiterRedis } = require('rate-limiter-flexible')
    const [host, port] = process.env.REDIS.split(':')
    const limiter = new RateLimiterRedis({
      storeClient: new Redis({ host, port: Number(port) }),
      points: 1_000_000,
      duration: 3600,
    })
    return {
      take: (user) =>
        limiter.consume(user).then(
          () => true,
          () => false,
        ),
    }
  },

  // The client that docs/migrating.md had before the package.
  'fetch': async () => ({
    take: async (user) => {
      const answer = await fetch(`http://${process.env.WEIR_HTTP}/v1/check`, {
        method: 'POST',
        body: JSON.stringify({ policy: 'users', key: { user } }),
        signal: AbortSignal.timeout(5000),
      })
      return (await answer.json()).allowed
    },
  }),
})
