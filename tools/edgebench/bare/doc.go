// Package bare is the edge that opsgate is compared with: grpc-gateway as its documentation sets it up, with the default marshaler, and
// without authentication, limits, logs or metrics.
//
// Its routes are in routes.yaml; `make generate` generates the code below ops from them and from the protos.
package bare
