// Host memory, for both implementations of device.h.
#pragma once
#include <cstddef>

namespace foldgrad::memory {

// memcpy, for large sizes on all threads and past the caches.
void host_copy(void* target, const void* source, std::size_t bytes);

}  // namespace foldgrad::memory
