// Host versions of the asynchronous copies in engine/cuda/async_copy.h.
#pragma once
#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

// cp.async.cg.shared.global of 16 bytes, or zeros when not `inside`. From here on the destination is NaN, until the
// copy is carried out: at once or in the wait that covers it, as the order of the threads has it (copies_at_once).
// Throws when an address is no multiple of 16 bytes, or the destination not in shared memory. Its source counts as an
// access to global memory (global_memory.h), so all lanes of a warp make the same copies.
void async_copy(const CallSite& site, void* shared, const void* global, bool inside);
// cp.async.commit_group: the copies since the last one are a group.
void async_commit(const CallSite& site);
// cp.async.wait_group: carries out all groups of this thread but the last `pending`.
void async_wait(const CallSite& site, int pending);

}  // namespace foldgrad::emulation
