// Makes calls for a while and prints what one costs: node calls.mjs WAY MILLISECONDS. The
// environment has WEIR_RESP, WEIR_HTTP and MODULES. It prints the calls and the processor time of
// this process in microseconds.
import { createRequire } from 'node:module'
import { waysOf } from './ways.mjs'

const [way, milliseconds] = process.argv.slice(2)
const { take } = await waysOf(createRequire(process.env.MODULES + '/package.json'))[way]()

async function run(ms, callers = 50) {
  const end = performance.now() + ms
  let calls = 0
  const before = process.cpuUsage()
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() < end) {
        if (!(await take(`user-${calls++ % 10_000}`))) throw new Error('denied')
      }
    }),
  )
  const { user, system } = process.cpuUsage(before)
  return [calls, user + system]
}

await run(Number(milliseconds) / 2)
console.log(...(await run(Number(milliseconds))))
process.exit()
