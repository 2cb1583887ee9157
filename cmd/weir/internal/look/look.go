// Package look has the style and the script that weir's pages in a browser share: the reports of
// weir suggest and weir replay, and the operators' page of weir serve.
//
// Each page puts them before its own. A design system or a bundler was no alternative: it would
// be larger than both pages.
package look

import _ "embed" // the style and the script

// Style is the common style.
//
//go:embed base.css
var Style string

// Script is the common script. It is strict, and defines one constant, look.
//
//go:embed base.js
var Script string
