// Package browsertest opens pages in Chromium, for tests of their content and requests.
package browsertest
