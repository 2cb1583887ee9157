// A Hono application that limits the requests of each client address.
import { serve } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { Hono } from 'hono'
import { Weir } from 'weirlimit'

const limiter = new Weir({ url: 'redis://127.0.0.1:7073' }).limit('5 per minute per ip')
const app = new Hono()
app.use(async (c, next) => {
  const d = await limiter.take({ ip: getConnInfo(c).remote.address })
  if (d.allowed) return next()
  if (Number.isFinite(d.retryAfterMs)) c.header('Retry-After', String(Math.ceil(d.retryAfterMs / 1000)))
  return c.text('Too many requests\n', d.error ? 503 : 429)
})
app.get('/', (c) => c.text('hello\n'))
serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 8080) })
