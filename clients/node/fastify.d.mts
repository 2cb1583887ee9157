import { weirStore } from './fastify.js'
export * from './fastify.js'
export default weirStore
