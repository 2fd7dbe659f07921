// Convolutions in f32 and bf16 by oneDNN's primitives (2.6). Images stay as they are; weights are brought into the
// order that a primitive wants, and their gradient out of it. A primitive is compiled for one shape, so primitives are
// kept.
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "engine/gemm/onednn_engine.h"
#include "engine/memory.h"
#include "ops/conv2d/conv2d_products.h"

namespace foldgrad {
namespace {

using Memory = dnnl::memory;
using DataType = Memory::data_type;
using Format = Memory::format_tag;

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

using Key = std::array<std::int64_t, 13>;

Key key_of(const Conv2dProduct& p, bool bias) {
  const Conv2dSizes& s = p.s;
  return {s.batch,
          s.channels,
          s.height,
          s.width,
          s.kernel_height,
          s.kernel_width,
          s.stride,
          s.padding,
          p.out,
          std::int64_t(p.dtype),
          std::int64_t(p.pass) << 1 | bias,
          p.f32_dweight,
          omp_in_parallel() ? 1 : omp_get_max_threads()};
}

// A primitive with the arguments it is executed on, whose addresses change from call to call.
struct Convolution {
  dnnl::primitive primitive;  // empty: oneDNN refuses the case
  dnnl::reorder reorder;      // moves the weights to `packed`, or their gradient from there
  Memory x, y, bias, weight, packed, scratch;
  std::unordered_map<int, Memory> arguments;
  std::size_t packed_bytes = 0, scratch_bytes = 0;
};

// Memory descriptions for oneDNN, which counts the axes of images as [B, C, H, W] whatever their order in memory is.
struct Descriptions {
  Memory::desc x, y, bias, any_weight, weight;
  Memory::dims strides, padding;
  dnnl::primitive_attr attributes;

  explicit Descriptions(const Conv2dProduct& p) {
    const Conv2dSizes& s = p.s;
    const DataType type = p.dtype == DType::bf16 ? DataType::bf16 : DataType::f32;
    const Memory::dims kernels{p.out, s.channels, s.kernel_height, s.kernel_width};
    x = {{s.batch, s.channels, s.height, s.width}, type, Format::nhwc};
    y = {{s.batch, p.out, s.out_height, s.out_width}, type, Format::nhwc};
    bias = {{p.out}, type, Format::x};
    // Sums over the whole batch are not to be rounded before they are complete.
    any_weight = {kernels, p.pass == Conv2dPass::dweight ? DataType::f32 : type, Format::any};
    weight = {kernels, p.f32_dweight ? DataType::f32 : type, Format::oihw};
    strides = {s.stride, s.stride};
    padding = {s.padding, s.padding};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  dnnl::convolution_forward::primitive_desc forward(bool with_bias) const {
    using dnnl::convolution_forward;
    const auto training = dnnl::prop_kind::forward_training;
    const auto wanted =
        with_bias ? convolution_forward::desc(training, kAlgorithm, x, any_weight, bias, y, strides, padding, padding)
                  : convolution_forward::desc(training, kAlgorithm, x, any_weight, y, strides, padding, padding);
    return {wanted, attributes, onednn_engine(), true};
  }
  dnnl::convolution_backward_data::primitive_desc backward_x() const {
    const dnnl::convolution_backward_data::desc wanted(kAlgorithm, x, any_weight, y, strides, padding, padding);
    return {wanted, attributes, onednn_engine(), forward(false), true};
  }
  dnnl::convolution_backward_weights::primitive_desc backward_weight() const {
    const dnnl::convolution_backward_weights::desc wanted(kAlgorithm, x, any_weight, y, strides, padding, padding);
    Descriptions ahead = *this;
    ahead.any_weight = {weight.dims(), x.data_type(), Format::any};
    return {wanted, attributes, onednn_engine(), ahead.forward(false), true};
  }
};

// `packed`: the weights as the primitive has them. The ids are of the arguments x, weights and y.
template <class Primitive, class Chosen>
void make(Convolution& c, const Descriptions& d, const Chosen& chosen, const Memory::desc& packed, int x_id,
          int weight_id, int y_id) {
  // Its generic loops, the last resort for odd cases, are slower than ours.
  if (!chosen || std::string(chosen.impl_info_str()).rfind("ref", 0) == 0) return;
  const auto argument = [&](int id, const Memory::desc& desc) {
    return c.arguments[id] = Memory(desc, onednn_engine(), nullptr);
  };
  c.x = argument(x_id, d.x);
  c.packed = argument(weight_id, packed);
  c.y = argument(y_id, d.y);
  c.scratch = argument(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc());
  c.weight = Memory(d.weight, onednn_engine(), nullptr);
  c.packed_bytes = packed.get_size();
  c.scratch_bytes = chosen.scratchpad_desc().get_size();
  const bool from_packed = weight_id == DNNL_ARG_DIFF_WEIGHTS;
  c.reorder = from_packed ? dnnl::reorder(c.packed, c.weight) : dnnl::reorder(c.weight, c.packed);
  c.primitive = Primitive(chosen);
}

Convolution make_convolution(const Conv2dProduct& p, bool with_bias) {
  Convolution c;
  // Kernels that see nothing but padding are more than oneDNN's were made for.
  if (p.s.padding >= std::min(p.s.kernel_height, p.s.kernel_width)) return c;
  try {
    const Descriptions d(p);
    if (p.pass == Conv2dPass::y) {
      const auto chosen = d.forward(with_bias);
      make<dnnl::convolution_forward>(c, d, chosen, chosen ? chosen.weights_desc() : d.weight, DNNL_ARG_SRC,
                                      DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
      if (with_bias) c.bias = c.arguments[DNNL_ARG_BIAS] = Memory(d.bias, onednn_engine(), nullptr);
    } else if (p.pass == Conv2dPass::dx) {
      const auto chosen = d.backward_x();
      make<dnnl::convolution_backward_data>(c, d, chosen, chosen ? chosen.weights_desc() : d.weight, DNNL_ARG_DIFF_SRC,
                                            DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST);
    } else {
      const auto chosen = d.backward_weight();
      make<dnnl::convolution_backward_weights>(c, d, chosen, chosen ? chosen.diff_weights_desc() : d.weight,
                                               DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST);
    }
  } catch (const dnnl::error&) {  // such as bf16 on a processor without it
    return {};
  }
  return c;
}

Convolution& convolution_for(const Conv2dProduct& p, bool with_bias) {
  constexpr std::size_t kConvolutions = 256;                                      // then it starts anew
  thread_local std::unordered_map<Key, Convolution, OnednnKeyHash> convolutions;  // per thread: nothing is locked
  const Key key = key_of(p, with_bias);
  if (const auto found = convolutions.find(key); found != convolutions.end()) return found->second;
  if (convolutions.size() == kConvolutions) convolutions.clear();
  return convolutions.emplace(key, make_convolution(p, with_bias)).first->second;
}

}  // namespace

bool onednn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at) {
  Convolution& c = convolution_for(p, at.bias != nullptr);
  if (!c.primitive) return false;
  const auto packed = memory::allocate(Device::cpu, c.packed_bytes),
             scratch = memory::allocate(Device::cpu, c.scratch_bytes);
  c.x.set_data_handle(at.x);
  c.weight.set_data_handle(at.weight);
  c.y.set_data_handle(at.y);
  c.packed.set_data_handle(packed.get());
  if (at.bias) c.bias.set_data_handle(const_cast<void*>(at.bias));  // oneDNN has no const arguments; it only reads it
  if (scratch) c.scratch.set_data_handle(scratch.get());
  thread_local dnnl::stream stream(onednn_engine());
  try {
    if (p.pass != Conv2dPass::dweight) c.reorder.execute(stream, c.weight, c.packed);
    c.primitive.execute(stream, c.arguments);
    if (p.pass == Conv2dPass::dweight) c.reorder.execute(stream, c.packed, c.weight);
    stream.wait();
  } catch (const dnnl::error& e) {
    throw std::runtime_error(fmt::format("conv2d_channels_last: oneDNN failed: {}", e.what()));
  }
  return true;
}

}  // namespace foldgrad
