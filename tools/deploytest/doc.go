// Package deploytest tests the Helm chart, the images, the compose file and the systemd unit. It is a separate module, because the tests
// need more libraries than the product.
//
// Charts are linted and rendered by Helm's packages, which build faster than the command and return messages as values.
package deploytest
