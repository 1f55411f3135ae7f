// Package openapitest holds what the API says against its description, in tests.
//
// As published, schemas are open, because a client must bear new fields. Here they are closed: a property, a status or a
// header that the description does not name is a failure, as is a request that was accepted although the description
// forbids it.
package openapitest
