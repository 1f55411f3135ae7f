// Package waits lets the parts that a request passes tell it how long it waited for them. Whoever makes it wait has measured that
// anyway, and adds it to what the request's context carries; a context that carries nothing has nobody who wants to know.
//
// It knows nothing of requests, so that libraries which know nothing of the gateway can use it.
package waits
