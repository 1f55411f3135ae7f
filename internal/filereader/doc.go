// Package filereader reads small files: of configuration, secrets, certificates.
//
// A read ends in bounded time. A file system that hangs, such as a network mount, would otherwise
// end what reads from it, without an error. The kernel cannot end the read, so it stays
// outstanding, and a [Reader] begins no other one until it has ended.
//
// A [Watcher] detects changes by reading: kernel notifications miss replaced links and network file
// systems.
package filereader
