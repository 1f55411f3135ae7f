// Package responses sends responses, and limits the memory that clients take by not reading them.
//
// [Negotiate] and [PrefersMarkdown] choose the representation of a body, and [Response.Send] writes
// it. [Unwritten] accounts a response until it is written, and cuts off older responses if a limit
// is exceeded. The package gateway sets the status and the headers of responses, and makes their
// bodies. Tests of Send and of the limits over real connections are in package gateway.
package responses
