import fastify from './fastify.js'

export const { weirStore } = fastify
export default weirStore
