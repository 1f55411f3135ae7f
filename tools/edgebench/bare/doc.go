// Package bare is the edge that opsgate is measured against: grpc-gateway as its documentation sets it up, with the default
// marshaler, and nothing around it: no authentication, no limits, no logs, no metrics.
//
// Its routes stand in routes.yaml; the code under ops is generated from them and the protos (`make generate`).
package bare
