// Package devtest runs opsdev in the process of a test.
package devtest
