// Runs example.mjs through a relay to a server, which loses an answer and then stops:
// node outage.mjs PORT.
import { setTimeout as wait } from 'node:timers/promises'
import net from 'node:net'
import Redis from 'ioredis'

const port = Number(process.argv[2])
const show = (name, value) => console.log(name, JSON.stringify(value))
const clients = new Set()
let losing = false // the next answer

const relay = net.createServer((client) => {
  const server = net.connect(port)
  clients.add(client)
  client.on('error', () => {}).on('close', () => server.destroy())
  server.on('error', () => {}).on('close', () => client.destroy())
  client.on('data', (bytes) => server.write(bytes))
  server.on('data', (bytes) => {
    if (!losing) return client.write(bytes)
    losing = false
    client.destroy()
  })
})
const listen = (at) => new Promise((resolve, reject) => {
  relay.once('error', reject).listen(at, '127.0.0.1', resolve)
})
// The port must stay free while the relay is away. So it is none that a system gives to clients and
// other servers.
let at
do {
  at = 10_000 + Math.floor(Math.random() * 2000)
} while (!await listen(at).then(() => true, () => false))
process.env.PORT = at

const { check } = await import('./example.mjs')
// until returns the first decision that weir has made.
async function until() {
  for (;;) {
    const decision = await check('example')
    if (decision.allowed) return decision
    await wait(5)
  }
}
show('at first', await until())
losing = true
show('after a lost answer', await check('example'))
await check(undefined).catch((err) => show('undefined', err.message))

const logged = new Promise((resolve) => { console.error = (...text) => resolve(text.join(' ')) })
relay.close()
for (const client of clients) client.destroy()
show('log', (await logged).replace(/\d+$/, 'PORT'))
const start = Date.now()
let decision
for (let i = 0; i < 20; i++) decision = await check('example')
show('while weir is down', decision)
show('immediately', Date.now() - start < 10_000) // half the time of one command
await listen(at)
show('when it is back', await until())

const direct = new Redis({ port })
show('left', (await direct.call('WEIR.PEEK', 'push', 'teacher=example'))[2])
process.exit()
