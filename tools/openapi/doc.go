// Package openapi pins and tests the tools of `make check-openapi`.
package openapi
