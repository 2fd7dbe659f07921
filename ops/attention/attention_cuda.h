// The two sets of kernels on the GPU. The plain ones are for every type and width, and what to read first; the others
// have tensor cores for their products. attention_cuda() chooses (attention_cuda.cu).
#pragma once
#include "ops/attention/attention_kernels.h"

namespace foldgrad {

template <class T>
void attention_plain_cuda(const AttentionForward<T>& p);
template <class T>
void attention_plain_cuda(const AttentionBackward<T>& p);

// Returns true if there are kernels with tensor cores for it: heads of 32, 64 or 128 columns, and rows that begin at
// multiples of 16 bytes.
bool suits_tensor_cores(const AttentionForward<bf16>& p);
bool suits_tensor_cores(const AttentionBackward<bf16>& p);
// Products take bf16 and are summed in float. Beyond the plain kernels, p and ds are rounded to bf16 before they are
// multiplied.
void attention_mma_cuda(const AttentionForward<bf16>& p);
void attention_mma_cuda(const AttentionBackward<bf16>& p);

}  // namespace foldgrad
