// Package browsertest opens pages in a real Chromium, for tests of what people see.
package browsertest
