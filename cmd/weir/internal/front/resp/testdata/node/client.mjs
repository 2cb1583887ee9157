// Asks a server through the two Redis clients of Node: node client.mjs PORT.
// Every line it prints is one reply, or what went wrong.
import { createClient } from '@redis/client'
import Redis from 'ioredis'

const port = Number(process.argv[2])
const show = (name, reply) => console.log(name, JSON.stringify(reply))

// redacted leaves out the instant of a decision, which is another every time.
const redacted = (reply) => reply.map((part, i) => (i === 6 ? typeof part : part))

async function withIoredis() {
  const client = new Redis({ port, connectionName: 'node-test', enableAutoPipelining: true, retryStrategy: null })
  show('ioredis', redacted(await client.call('WEIR.CHECK', 'push', 'teacher=ioredis', 3)))
  const replies = await client.pipeline().call('WEIR.CHECK', 'push', 'teacher=ioredis', 8).call('ECHO', 'höher').exec()
  show('ioredis', [redacted(replies[0][1]), replies[1]])
  const many = await Promise.all(Array.from({ length: 40 }, () => client.call('WEIR.CHECK', 'push', 'teacher=ioredis-many')))
  show('ioredis', many.filter((reply) => reply[0] === 1).length)
  await client.call('WEIR.CHECK', 'nosuch').catch((error) => show('ioredis', error.message.slice(0, 3)))
  await client.quit()
}

async function withNodeRedis(protocol) {
  const client = createClient({ socket: { port, reconnectStrategy: false }, name: 'node-test', RESP: protocol })
  const name = `node-redis-${protocol}`
  client.on('error', (error) => show(name, error.message))
  await client.connect()
  show(name, await client.ping())
  show(name, redacted(await client.sendCommand(['WEIR.CHECK', 'push', `teacher=${name}`, '11'])))
  const many = await Promise.all(Array.from({ length: 40 }, () => client.sendCommand(['WEIR.CHECK', 'push', `teacher=${name}`])))
  show(name, many.filter((reply) => reply[0] === 1).length)
  await client.sendCommand(['WEIR.CHECK', 'nosuch']).catch((error) => show(name, error.message.slice(0, 3)))
  await client.close()
}

await withIoredis()
await withNodeRedis(2)
await withNodeRedis(3)
