// The place in a model where this thread is, for messages from below the tape, which know nothing of it.
#pragma once
#include <string>

namespace foldgrad {

// The scope of the tape that this thread records or runs backward; null outside of all. Only the tape sets it.
inline const std::string*& scope_at_hand() {
  thread_local const std::string* scope = nullptr;
  return scope;
}

}  // namespace foldgrad
