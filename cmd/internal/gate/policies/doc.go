// Package policies builds the rate limit policies of a configuration.
package policies
