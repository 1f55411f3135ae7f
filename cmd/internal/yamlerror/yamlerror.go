// Package yamlerror says what the YAML library finds wrong with a file, without what may be a secret in it.
package yamlerror

import "regexp"

// anchorName matches what the library calls an anchor. It may be a secret that begins with *, as an alias does.
var anchorName = regexp.MustCompile(`anchor '.*'`)

// Text returns the error's text without the names of anchors.
func Text(err error) string { return anchorName.ReplaceAllString(err.Error(), "anchor") }
