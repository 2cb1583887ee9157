// A Fastify application that limits the requests of each client address by @fastify/rate-limit.
import Fastify from 'fastify'
import rateLimit from '@fastify/rate-limit'
import { weirStore } from 'weirlimit/fastify'

export const app = Fastify()
await app.register(rateLimit, { max: 5, timeWindow: '1 minute', store: weirStore({ url: 'redis://127.0.0.1:7073' }) })
app.get('/', async () => 'hello\n')
await app.listen({ port: Number(process.env.PORT ?? 8080) })
