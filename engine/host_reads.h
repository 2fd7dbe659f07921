// How often the host has waited for the device to read its memory: what a training step must not do.
#pragma once
#include <cstdint>

namespace foldgrad::memory {

// Copies from the device to the host in this process so far.
std::int64_t host_reads();

}  // namespace foldgrad::memory
