'use strict'

// A Breaker keeps calls from a server that does not answer. After some failures in a row it is
// open: calls fail without an attempt, except for a probe now and then. The first success closes
// it.
class Breaker {
  constructor(threshold) {
    this.threshold = threshold // failures in a row; 0 = never opens
    this.failures = 0
    this.probeAt = 0 // the next probe, by performance.now, which nobody sets back
    this.cause = undefined // the last failure
  }

  // admits reports whether a call may be tried now.
  admits() {
    if (!this.isOpen()) return true
    const now = performance.now()
    if (now < this.probeAt) return false
    this.probeAt = nextProbe(now)
    return true
  }

  isOpen() {
    return this.threshold > 0 && this.failures >= this.threshold
  }

  succeed() {
    this.failures = 0
    this.cause = undefined
  }

  fail(cause) {
    this.failures++
    this.cause = cause
    if (this.failures === this.threshold) this.probeAt = nextProbe(performance.now())
  }
}

// nextProbe is at random, so that many processes do not probe at once.
const nextProbe = (now) => now + 100 + Math.random() * 400

module.exports = { Breaker }
