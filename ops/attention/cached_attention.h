// Attention from single queries to rows of a cache, for step-by-step decoding.
//
//   [ATT-7]  y_r = sum_j p_rj v_j,  p_rj = exp(s_rj) / sum_i exp(s_ri),  s_rj = q_r . k_j / sqrt(D),  for each head,
//            over the rows j of the cache that are listed for query r; zero if there is none
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

// The rows of a cache that each query attends to. One object serves all layers, whose caches have the same layout.
class CachePlaces {
 public:
  void add(std::int64_t block, std::int64_t row) { places_.push_back(block << 32 | row); }
  void end_query() { begins_.push_back(std::int64_t(places_.size())); }
  // Copies the list of rows to the device. Do not add rows afterwards. A second call throws std::invalid_argument.
  void upload(Device device);

 private:
  friend Tensor cached_attention(const Tensor&, const std::vector<Tensor>&, const CachePlaces&, int, std::int64_t);

  std::vector<std::int64_t> places_, begins_{0};
  Tensor uploaded_places_, uploaded_begins_;
};

// Returns y [queries, H D]. The first H D columns of q [queries, .] are the queries. `blocks` are the parts of the
// cache, each [rows, .] with the same number of columns; the last 2 H D columns are the keys, followed by the values.
// So q and the blocks can both be rows of a joint projection to queries, keys and values. Throws std::invalid_argument
// unless q and the blocks have room for `heads` heads of `width` columns, the blocks have q's dtype and device, and
// `places` has been uploaded to this device and has as many queries as q. Does not check that the rows exist.
Tensor cached_attention(const Tensor& q, const std::vector<Tensor>& blocks, const CachePlaces& places, int heads,
                        std::int64_t width);

}  // namespace foldgrad
