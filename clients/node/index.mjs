import weirlimit from './index.js'

export const { Weir, WeirError, Limiter, Reservation } = weirlimit
