#include "engine/where.h"

namespace foldgrad {

Where& where() {
  thread_local Where here;
  return here;
}

std::string describe_where() {
  const Where& here = where();
  std::string text;
  if (here.scope && !here.scope->empty()) text += " at " + *here.scope;
  if (here.backward) text += std::string(", in the backward of ") + here.backward;
  return text;
}

}  // namespace foldgrad
