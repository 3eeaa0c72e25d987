// Early listening: the client port is bound before anything else of this process runs, even before the static
// constructors of the libraries it is linked with.
//
// Why: torch's EtcdServer starts the binary and connects at once. Its first four tries are over 1.5 ms after
// exec; when all are refused it sleeps a second. What connects to a bound port waits in the kernel's queue
// instead, until the server is up and accepts. Measured from exec: a function in .preinit_array of a static
// executable runs after 0.3 ms, main of one linked with shared libraries after 8 ms.
//
// It is an optimisation that may do nothing: only --listen-client-urls on the command line is looked at, only
// numeric addresses and localhost are understood, and whatever fails is left to bind_url(), which knows how
// to complain. Main thread only.
#pragma once

#include <sys/socket.h>

namespace rallypoint::server {

/// A descriptor that listens on exactly this address already, or -1. The caller owns it from then on.
int take_early_listener(const sockaddr* address);

/// Closes what nobody took.
void close_early_listeners();

}  // namespace rallypoint::server
