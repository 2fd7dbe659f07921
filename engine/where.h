// Where in a model this thread is, for messages of what lies below the tape and knows nothing of it.
#pragma once
#include <string>

namespace foldgrad {

struct Where {
  const std::string* scope = nullptr;  // of the tape; null: none
  const char* backward = nullptr;      // the operation whose backward runs; null: none
};
Where& where();                // of this thread; written by the tape alone
std::string describe_where();  // " at decoder.layers.0, in the backward of softmax", or nothing

}  // namespace foldgrad
