// Package deploytest holds what operators install to what it promises: the chart, the images, the compose file, the systemd unit. The
// package has tests alone, in a module by itself, for they need more libraries than the product does.
//
// Charts are linted and rendered by the packages that the helm command is made of. They build in a third of the command's time, and give
// their messages as values rather than as text.
package deploytest
