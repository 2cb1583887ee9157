import { rateLimit } from './express.js'
export * from './express.js'
export default rateLimit
