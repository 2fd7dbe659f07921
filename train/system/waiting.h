// How the threads of the CPU wait for one another.
#pragma once
#include <string>

namespace foldgrad {

// Limits how long a waiting thread spins before it sleeps: to 4,000 tries, about 0.1 ms, in place of libgomp's 300,000.
// Otherwise one busy neighbour on the machine makes a training step up to five times as long, since a step has hundreds
// of barriers, and a thread spins at each while the one that it waits for has no processor.
//
// libgomp reads $GOMP_SPINCOUNT when it is loaded, so this sets the variable and executes the program once more. Does
// nothing if the user has set $GOMP_SPINCOUNT or $OMP_WAIT_POLICY, or if the program cannot be executed again.
void limit_spinning(char** argv);

// Returns the variable that decides, as "GOMP_SPINCOUNT=4000", or "libgomp's default" if none is set.
std::string waiting_policy();

}  // namespace foldgrad
