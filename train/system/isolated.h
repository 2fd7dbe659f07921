// Work that may end the process, done in another one.
#pragma once
#include <functional>
#include <string>

namespace foldgrad {

// What `work` returns, computed in a child process whose stderr goes nowhere; empty when the child did not come to the
// end. Only the calling thread exists in the child: `work` must not wait for others. Throws std::runtime_error when the
// machine has no more processes.
std::string output_of_child(const std::function<std::string()>& work);

}  // namespace foldgrad
