#include "train/loop/optimizer/saved_state.h"

#include "engine/dispatch.h"

namespace foldgrad {

void check_saved_state(const char* op, const std::map<std::string, Tensor>& own,
                       const std::map<std::string, Tensor>& saved) {
  for (const auto& [key, tensor] : own) {
    const auto found = saved.find(key);
    FOLDGRAD_CHECK(found != saved.end(), "{}: the saved state has no {}", op, key);
    const Tensor& t = found->second;
    FOLDGRAD_CHECK(t.defined() && t.shape() == tensor.shape() && t.dtype() == tensor.dtype(),
                   "{}: {} of the saved state must be {} {}, got {}", op, key, name(tensor.dtype()), tensor.shape(),
                   describe(t));
  }
  for (const auto& [key, tensor] : saved)
    FOLDGRAD_CHECK(own.count(key), "{}: the saved state has {}, which belongs to no parameter here", op, key);
}

}  // namespace foldgrad
