#include "models/forward_pass.h"

namespace foldgrad {

std::uint32_t random_stream(const std::string& place) {
  std::uint32_t hash = 2166136261u;
  for (unsigned char c : place) hash = (hash ^ c) * 16777619u;
  return hash;
}

}  // namespace foldgrad
