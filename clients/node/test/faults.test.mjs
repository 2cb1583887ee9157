// Calls through a network that delays, cuts and duplicates. WEIR_SOAK_CALLS is their number; make
// soak-clients makes 100,000, with the timeouts of a program, and stops the network now and then.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { newWeir } from './web.mjs'

const isSoak = process.env.WEIR_SOAK_CALLS !== undefined
const calls = Number(process.env.WEIR_SOAK_CALLS ?? 3000)
const policies = 'version: 1\npolicies:\n  much: {limit: 1000000000 per hour per user}'

for (const front of ['resp', 'http']) {
  test(`every unit is charged once, over ${front}`, async (t) => {
    const patient = { timeout: 2000, totalTimeout: 20_000 } // a busy machine is slow
    const client = {
      retries: 10,
      breaker: 0,
      ...(isSoak ? { timeout: 250, totalTimeout: 1000 } : patient),
    }
    const { server, weir } = await newWeir(t, { policies, front, client })
    weir.on('down', () => {})
    const much = weir.policy('much')
    let made = 0
    let granted = 0
    let undecided = 0
    let longest = 0
    const caller = async (user) => {
      while (made < calls) {
        const n = 1 + (made++ % 3)
        const begun = performance.now()
        const d = await much.take({ user }, { n })
        longest = Math.max(longest, performance.now() - begun)
        if (d.degraded) undecided++
        else granted += d.granted
      }
    }
    const mix = { kind: 'mix', percent: front === 'resp' ? 3 : 1, least_ms: 0, most_ms: 5 }
    await server.fault(mix)
    const stalls =
      isSoak &&
      setInterval(
        () =>
          server
            .fault({ kind: 'silence' })
            .then(() => sleep(300))
            .then(() => server.fault(mix)),
        3000,
      )
    const users = ['ann', 'bob', '张三', 'Jürgen']
    await Promise.all(Array.from({ length: 32 }, (_, i) => caller(users[i % users.length])))
    clearInterval(stalls)
    await sleep(isSoak ? 1000 : 0) // the end of the last stall
    await server.fault({ kind: 'none' })
    let charged = 0
    for (const user of users) charged += 1000000000 - (await much.peek({ user })).remaining
    console.log(
      `over ${front}: ${made} calls, ${granted} units granted, ${charged} charged, ${undecided} calls undecided, the longest took ${Math.round(longest)} ms of ${client.totalTimeout}`,
    )
    // An undecided call may have been charged: its outcome is unknown.
    assert(
      charged >= granted && charged <= granted + 3 * undecided,
      `${granted} granted, ${charged} charged`,
    )
    assert(undecided <= calls / 100, `${undecided} calls undecided`)
    assert(longest <= client.totalTimeout * 1.1, `${longest} ms`)
  })
}
