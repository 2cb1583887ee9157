// Waits beyond the shared cases: their order, their end by a signal, and their refund.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newWeir } from './web.mjs'

const policies =
  'version: 1\npolicies:\n  fast: {limit: 1 per 500ms per user, max-wait: 20s}\n  slow: {limit: 1 per hour per user}\n  spaced: {limit: "3 per hour per user, 300ms apart"}'
const ann = { user: 'ann' }
const hour = 3_600_000

for (const front of ['resp', 'http']) {
  const waits = (name, run) => test(`${name}, over ${front}`, run)

  waits('callers start in the order of their calls', async (t) => {
    const { weir } = await newWeir(t, { policies, flags: [], front })
    const fast = weir.policy('fast')
    const begun = performance.now()
    const order = []
    const calls = []
    for (let i = 0; i < 4; i++) {
      // The next call is sent after the answer to the one before.
      const decided = new Promise((resolve) => {
        const { decide } = fast
        fast.decide = async (call) => {
          const d = await decide.call(fast, call)
          resolve()
          return d
        }
      })
      calls.push(fast.wait(ann, { maxWaitMs: 20_000 }).then((d) => order.push([i, d.startAfterMs])))
      await decided
      delete fast.decide
    }
    await Promise.all(calls)
    assert.deepEqual(
      order.map(([i]) => i),
      [0, 1, 2, 3],
    )
    assert(performance.now() - begun >= 1500)
    assert.equal(order[0][1], 0)
    assert(order[3][1] > 0)
  })

  waits('a signal ends a wait and gives the units back', async (t) => {
    const { weir } = await newWeir(t, { policies, flags: [], front })
    const slow = weir.policy('slow')
    await slow.take(ann)
    const abort = new AbortController()
    const waiting = slow.wait(ann, { maxWaitMs: hour, signal: abort.signal })
    while ((await slow.peek(ann)).remaining === 0);
    assert.equal((await slow.peek(ann)).remaining, -1)
    abort.abort(new Error('the user has left'))
    await assert.rejects(waiting, /the user has left|aborted/)
    assert.equal((await slow.peek(ann)).remaining, 0)
    await assert.rejects(
      slow.wait(ann, { maxWaitMs: hour, signal: abort.signal }),
      /the user has left/,
    )
    assert.equal((await slow.peek(ann)).remaining, 0)
  })

  waits('a signal ends the wait of a reservation', async (t) => {
    const { weir } = await newWeir(t, { policies, flags: [], front })
    const slow = weir.policy('slow')
    await slow.take(ann)
    const abort = new AbortController()
    const waiting = slow.reserve(ann, { maxWaitMs: Infinity, signal: abort.signal })
    while ((await slow.peek(ann)).remaining === 0);
    abort.abort(new Error('the user has left'))
    await assert.rejects(waiting, /the user has left|aborted/)
    assert.equal((await slow.peek(ann)).remaining, 0)
  })

  waits('a wait is refunded at its start', async (t) => {
    const { weir } = await newWeir(t, { policies, flags: [], front })
    const spaced = weir.policy('spaced')
    for (const signal of [undefined, new AbortController().signal]) {
      let key, d
      // Where a busy machine was slower than the distance, another user waits.
      for (let tries = 0; tries < 10 && !(d?.startAt > d?.at); tries++) {
        key = { user: `${signal ? 'ann' : 'bob'} ${tries}` }
        await spaced.take(key)
        d = await spaced.wait(key, { signal })
      }
      assert(d.startAt > d.at)
      assert.equal(await spaced.refund(key, d), 1)
      assert.equal((await spaced.peek(key)).remaining, 2)
    }
  })

  waits('a wait that is longer than the policy allows is named', async (t) => {
    const { weir } = await newWeir(t, { policies, flags: [], front })
    const fast = weir.policy('fast')
    await assert.rejects(
      fast.wait(ann, { maxWaitMs: 20_001 }),
      (err) => err.kind === 'input' && /20000/.test(err.message),
    )
    await assert.rejects(
      fast.wait(ann, { maxWaitMs: 1.5 }),
      /the longest wait must be a whole number/,
    )
  })
}
