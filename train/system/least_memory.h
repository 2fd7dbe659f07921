// The memory that the program needs before it can report errors.
#pragma once

namespace foldgrad {

// Ends the process with kExitDevice and a message when its address space is limited to less than the libraries need.
// For .preinit_array of a program: it runs before the constructors of shared libraries, and uses none of them but libc.
void require_least_memory();

}  // namespace foldgrad
