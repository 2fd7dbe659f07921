// The stack that the program runs on.
#pragma once
#include <functional>

namespace foldgrad {

// Calls `program` and returns its result. Where the limit of the stack (ulimit -s) is below 1 MiB, it runs on a thread
// with a stack of 8 MiB, and threads that start later get the same: libraries take some 100 KiB, and a stack that is
// too small ends the process without a word.
int with_enough_stack(const std::function<int()>& program);

}  // namespace foldgrad
