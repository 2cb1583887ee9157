// Calls functions of a module and prints their results:
//
//     node calls.mjs MODULE [virtual] < calls.json
//
// The input is an array of {at, call, args}, the output an array of results. With "virtual"
// a call happens `at` milliseconds after the start, by the clock of the module: Date, timers
// of intervals, and the package microtime. Otherwise `at` has no effect. A module that
// exports an Express app has the call get(address).
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { mock } from 'node:test'
import { pathToFileURL } from 'node:url'

const [file, mode] = process.argv.slice(2)
const start = Date.UTC(2026, 0, 5, 9)
if (mode === 'virtual') {
  mock.timers.enable({ apis: ['Date', 'setInterval'], now: start })
  const require = createRequire(import.meta.url)
  require('microtime')
  require.cache[require.resolve('microtime')].exports = { now: () => Date.now() * 1000 }
}

const calls = { ...await import(pathToFileURL(resolve(file))) }
if (calls.app) {
  calls.app.set('trust proxy', 'loopback')
  const server = calls.app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${server.address().port}/`
  calls.get = async (address) => {
    const answer = await fetch(url, { headers: { 'X-Forwarded-For': address } })
    await answer.text()
    return answer.status
  }
}

const results = []
for (const { at, call, args } of JSON.parse(await text(process.stdin))) {
  if (mode === 'virtual') mock.timers.tick(start + at - Date.now())
  results.push(await calls[call](...args) ?? null)
}
process.stdout.write(JSON.stringify(results), () => process.exit())
