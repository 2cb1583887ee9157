// Package browsertest opens reports in a real browser: Chromium, driven by chromedp. It is
// a module of its own, so that the driver never reaches the modules of weir. axe-core, which
// finds errors of accessibility, comes from npm (MPL-2.0); only its lock file is here.
package browsertest
