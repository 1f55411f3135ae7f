// Package browsertest opens pages in a real Chromium, for tests of what a page shows and requests.
package browsertest
