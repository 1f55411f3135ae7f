package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

const (
	masters = 3
	slots   = 16384
)

// A Cluster is three masters without replicas that share all slots.
type Cluster struct {
	Servers []*Server
}

// StartCluster runs a cluster, and returns when each master reports that it is complete.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	buses := make([]int, masters)
	for i := range masters {
		buses[i] = testkit.FreePort(t)
		c.Servers = append(c.Servers, Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(buses[i])))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for i, s := range c.Servers {
		s.do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
		s.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			s.do(ctx, "CLUSTER", "MEET", host, c.Servers[0].port, buses[0])
		}
	}
	for _, s := range c.Servers {
		s.await("the cluster is complete", s.hasCluster)
	}
	return c
}

// Addrs returns the addresses of the masters.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// hasCluster reports whether the master has the other masters and all slots in its configuration.
func (s *Server) hasCluster(ctx context.Context) bool {
	info := s.Client().ClusterInfo(ctx).Val()
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", masters)) &&
		strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", masters))
}
