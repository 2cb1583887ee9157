// Sends the port on which the program listens to its parent.
const { Server } = require('node:net')

const { listen } = Server.prototype
Server.prototype.listen = function (...args) {
  this.once('listening', () => process.send(this.address().port))
  return listen.apply(this, args)
}
