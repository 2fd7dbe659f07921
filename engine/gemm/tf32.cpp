#include "engine/gemm/tf32.h"

#include <atomic>

namespace foldgrad {
namespace {
std::atomic<bool> allowed_now{false};
}

void allow_tf32(bool allowed) { allowed_now = allowed; }
bool tf32_allowed() { return allowed_now; }

}  // namespace foldgrad
