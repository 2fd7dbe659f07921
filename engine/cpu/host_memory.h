// Host memory functions that both implementations of device.h use.
#pragma once
#include <cstddef>

namespace foldgrad::memory {

// These implement system_allocate() and system_release() for host memory.
void* host_allocate(std::size_t bytes);
void host_release(void* pointer) noexcept;
// Copies like memcpy. Large copies use all threads and bypass the caches.
void host_copy(void* target, const void* source, std::size_t bytes);

}  // namespace foldgrad::memory
