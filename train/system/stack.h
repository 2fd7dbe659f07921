// The stack that the program runs on.
#pragma once
#include <functional>

namespace foldgrad {

// Calls `program` and returns its result. If the stack limit (ulimit -s) is below 1 MiB, runs it on a thread with a
// stack of 8 MiB, and gives later threads a stack of this size, too: libraries need about 100 KiB, and a stack overflow
// ends the process without a message.
int with_enough_stack(const std::function<int()>& program);

}  // namespace foldgrad
