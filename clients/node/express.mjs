import express from './express.js'

export const { rateLimit, WeirStore, ipKeyGenerator } = express
export default rateLimit
