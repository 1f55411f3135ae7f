// Package policies makes of a configuration which limits each token has.
package policies
