package configfile

import "regexp"

// anchorName matches the name of an anchor in an error. The name may be a secret that begins with
// *, which YAML reads as an alias.
var anchorName = regexp.MustCompile(`anchor '.*'`)

// YAMLErrorText returns the text of the error without the names of anchors.
func YAMLErrorText(err error) string { return anchorName.ReplaceAllString(err.Error(), "anchor") }
