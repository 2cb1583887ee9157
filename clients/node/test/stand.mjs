// The stand of clients/testdata/README.md: it starts weir behind a proxy with faults.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
let address = process.env.WEIR_STAND

// standAddress returns the address of the control port, and starts a stand if there is none.
export async function standAddress() {
  if (address) return address
  const child = spawn('go', ['run', './clients/stand'], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.on('exit', (code) => {
    if (!address) console.error(`go run ./clients/stand ended with ${code}`)
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  child.unref()
  child.stdin.unref()
  child.stdout.destroy()
  address = line
  return address
}

async function ask(method, path, body) {
  const answer = await fetch((await standAddress()) + path, {
    method,
    body: body && JSON.stringify(body),
  })
  const result = await answer.json()
  if (!answer.ok) throw new Error(result.error)
  return result
}

// start starts a weir; stop ends it, and fault sets a fault of its network.
export async function start(options = {}) {
  const { policies, ...others } = options
  const server = await ask('POST', '/servers', {
    ...others,
    ...(policies && { policies: [].concat(policies).join('\n') }),
  })
  server.stop = () => ask('DELETE', `/servers/${server.id}`)
  server.fault = (fault) => ask('POST', `/servers/${server.id}/fault`, fault)
  server.url = (front) => {
    if (front === 'http') return `http${server.ca ? 's' : ''}://${server.http}`
    return server.resp.startsWith('/')
      ? `unix:${server.resp}`
      : `redis${server.ca ? 's' : ''}://${server.resp}`
  }
  return server
}

// modulesDir has the packages that only tests use, in its node_modules.
export const modulesDir =
  process.env.WEIR_NODE_MODULES ?? fileURLToPath(new URL('modules', import.meta.url))

// modules requires one of them.
export const modules = createRequire(modulesDir + '/package.json')
