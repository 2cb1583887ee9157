'use strict'

const { Weir } = require('./lib/client')
const { WeirError } = require('./lib/errors')
const { Limiter } = require('./lib/limiter')
const { Reservation } = require('./lib/reservation')

module.exports = { Weir, WeirError, Limiter, Reservation }
