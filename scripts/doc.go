// Package scripts has the commands behind the Makefile. Its tests run them with a
// stand-in for the go command, so that they need no network.
package scripts
