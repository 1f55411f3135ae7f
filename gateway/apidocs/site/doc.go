// Package site renders the pages of the documentation from the OpenAPI document and the guides. It
// is a part of the generator apidocsgen, not of the gateway, which serves what is generated.
//
// html/template escapes all values by their place. Markdown is from the repository, and raw HTML in
// it is left out.
package site
