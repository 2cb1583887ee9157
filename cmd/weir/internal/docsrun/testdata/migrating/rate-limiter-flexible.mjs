import { RateLimiterMemory } from 'rate-limiter-flexible'

const limiter = new RateLimiterMemory({ points: 20, duration: 60 })
export const allow = (user) => limiter.consume(user).then(() => true, (denial) => {
  if (denial instanceof Error) throw denial
  return false
})
