#include "engine/cuda/runtime/slabs.h"

#include <iterator>

#include "engine/memory.h"

namespace foldgrad {

void* Slabs::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  for (auto& [begin, slab] : slabs_)
    if (char* block = cut(slab, size)) return block;
  return cut(new_slab(size), size);
}

// Null when no piece is large enough. What is left of a slab lies mostly at its end.
char* Slabs::cut(Slab& slab, std::size_t bytes) {
  if (slab.free_bytes < bytes) return nullptr;
  for (auto at = slab.pieces.rbegin(); at != slab.pieces.rend(); ++at) {
    auto& [begin, piece] = *at;
    if (!piece.free || piece.bytes < bytes) continue;
    if (piece.bytes > bytes) slab.pieces.emplace(begin + bytes, Piece{piece.bytes - bytes, true});
    piece = {bytes, false};
    slab.free_bytes -= bytes;
    return begin;
  }
  return nullptr;
}

Slabs::Slab& Slabs::new_slab(std::size_t bytes) {
  std::size_t size = bytes > kMostBytes ? bytes : kSlabBytes;
  void* memory = nullptr;
  try {
    memory = from_system_(size);
  } catch (const OutOfMemory&) {
    if (size == bytes) throw;
    size = bytes;
    memory = from_system_(size);
  }
  char* begin = static_cast<char*>(memory);
  return slabs_.emplace(begin, Slab{{{begin, {size, true}}}, size}).first->second;
}

// Erases entries and makes none: giving back must work when nothing is left to allocate.
bool Slabs::release(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  auto found = slabs_.upper_bound(static_cast<char*>(block));
  if (found == slabs_.begin()) return false;
  auto& [begin, slab] = *--found;
  auto at = slab.pieces.find(static_cast<char*>(block));
  if (at == slab.pieces.end()) return false;
  at->second.free = true;
  slab.free_bytes += at->second.bytes;
  const auto join = [&pieces = slab.pieces](auto piece, auto next) {
    if (!piece->second.free || !next->second.free) return;
    piece->second.bytes += next->second.bytes;
    pieces.erase(next);
  };
  if (const auto next = std::next(at); next != slab.pieces.end()) join(at, next);
  if (at != slab.pieces.begin()) join(std::prev(at), at);
  if (slab.pieces.size() > 1) return true;
  to_system_(begin);
  slabs_.erase(found);
  return true;
}

}  // namespace foldgrad
