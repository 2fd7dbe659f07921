// Computes f32 and bf16 convolutions with oneDNN's primitives. Images keep their layout; weights are reordered into the
// primitive's layout, and their gradient is reordered back. The images of a batch are divided among the threads.
#include <fmt/core.h>

#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/gemm/onednn_versions.h"
#include "ops/conv2d/conv2d_products.h"

namespace foldgrad {
namespace {

using Memory = dnnl::memory;
using DataType = Memory::data_type;
using Format = Memory::format_tag;

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

struct Convolution : OnednnPrimitive {
  dnnl::reorder reorder;  // copies weights to `packed`, or the gradient of the weights back
  Memory weight, packed;
};
using Convolutions = OnednnCache<Convolution, 14, 256>;

Convolutions::Key key_of(const Conv2dProduct& p, bool bias) {
  const Conv2dSizes& s = p.s;
  return {s.batch,       s.channels, s.height,      s.width, s.kernel_height,       s.kernel_width,
          s.stride,      s.padding,  s.end_padding, p.out,   std::int64_t(p.dtype), std::int64_t(p.pass) << 1 | bias,
          p.f32_dweight, p.groups};
}

// The names of a pass's arguments in its primitive.
struct Ids {
  int x, weight, y;

  explicit Ids(Conv2dPass pass)
      : x(pass == Conv2dPass::dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC),
        weight(pass == Conv2dPass::dweight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS),
        y(pass == Conv2dPass::y ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST) {}
};

// Memory descriptions for oneDNN, which orders the axes of images as [B, C, H, W], whatever their order in memory.
struct Descriptions {
  DataType type;
  Memory::desc x, y, bias, any_weight, weight;
  Memory::dims kernels, strides, padding, end_padding;
  dnnl::primitive_attr attributes;

  explicit Descriptions(const Conv2dProduct& p) {
    const Conv2dSizes& s = p.s;
    type = p.dtype == DType::bf16 ? DataType::bf16 : DataType::f32;
    kernels = {p.out, s.channels / p.groups, s.kernel_height, s.kernel_width};
    if (p.groups > 1) kernels = {p.groups, p.out / p.groups, kernels[1], s.kernel_height, s.kernel_width};
    x = {{s.batch, s.channels, s.height, s.width}, type, Format::nhwc};
    y = {{s.batch, p.out, s.out_height, s.out_width}, type, Format::nhwc};
    bias = {{p.out}, type, Format::x};
    // dweight is f32, since sums over the whole batch must not be rounded before they are complete.
    any_weight = {kernels, p.pass == Conv2dPass::dweight ? DataType::f32 : type, Format::any};
    weight = {kernels, p.f32_dweight ? DataType::f32 : type, p.groups > 1 ? Format::goihw : Format::oihw};
    strides = {s.stride, s.stride};
    padding = {s.padding, s.padding};
    end_padding = {s.end_padding, s.end_padding};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  dnnl::convolution_forward::primitive_desc forward(bool with_bias) const {
    using dnnl::convolution_forward;
    const auto training = dnnl::prop_kind::forward_training;
    // Creating this primitive reads out of bounds, and may crash, if the channels are not a multiple of 16.
    const auto faulty = kernels[kernels.size() - 3] % 16 != 0 ? "brgconv:avx512_core_amx" : "";
    return with_bias ? choose_implementation<convolution_forward>(
                           attributes, faulty,
                           std::tie(training, kAlgorithm, x, any_weight, bias, y, strides, padding, end_padding))
                     : choose_implementation<convolution_forward>(
                           attributes, faulty,
                           std::tie(training, kAlgorithm, x, any_weight, y, strides, padding, end_padding));
  }
  dnnl::convolution_backward_data::primitive_desc backward_x() const {
    return choose_implementation<dnnl::convolution_backward_data>(
        attributes, "", std::tie(kAlgorithm, x, any_weight, y, strides, padding, end_padding), forward(false));
  }
  dnnl::convolution_backward_weights::primitive_desc backward_weight() const {
    Descriptions ahead = *this;
    ahead.any_weight = {kernels, type, Format::any};
    return choose_implementation<dnnl::convolution_backward_weights>(
        attributes, "", std::tie(kAlgorithm, x, any_weight, y, strides, padding, end_padding), ahead.forward(false));
  }
};

// Creates the primitive for a pass if onednn_covers() accepts it. `packed` returns the primitive's weight layout.
template <class Primitive, class Chosen>
void make(Convolution& c, Conv2dPass pass, const Descriptions& d, const Chosen& chosen,
          Memory::desc (Chosen::*packed)() const) {
  if (!onednn_covers(chosen)) return;
  const Ids ids(pass);
  c.add(ids.x, d.x);
  c.packed = c.add(ids.weight, (chosen.*packed)());
  c.add(ids.y, d.y);
  c.weight = Memory(d.weight, onednn_engine(), nullptr);
  c.reorder = pass == Conv2dPass::dweight ? dnnl::reorder(c.packed, c.weight) : dnnl::reorder(c.weight, c.packed);
  c.set<Primitive>(chosen);
}

// Returns true if each column of the kernel is inside the image at some output position.
bool all_columns_hit(const Conv2dSizes& s) {
  for (std::int64_t w = 0; w < s.kernel_width; ++w) {
    bool hits = false;
    for (std::int64_t g = w - s.padding, j = 0; j < s.out_width; ++j, g += s.stride) hits |= 0 <= g && g < s.width;
    if (!hits) return false;
  }
  return true;
}

// Returns true for bf16 convolutions that oneDNN 2.6 computes wrongly: y if the stride skips rows of the image, and
// dweight if a column of the kernel sees only padding (the gradient of that column is then left uninitialised).
bool is_faulty(const Conv2dProduct& p) {
  if (p.dtype != DType::bf16) return false;
  return p.pass == Conv2dPass::y ? p.s.stride > p.s.kernel_height
                                 : p.pass == Conv2dPass::dweight && p.s.stride > 1 && !all_columns_hit(p.s);
}

Convolution make_convolution(const Conv2dProduct& p, bool with_bias) {
  using dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights;
  Convolution c;
  // oneDNN mishandles kernel positions that see only padding.
  if (p.s.end_padding >= std::min(p.s.kernel_height, p.s.kernel_width) || is_faulty(p)) return c;
  try {
    const Descriptions d(p);
    if (p.pass == Conv2dPass::y) {
      make<convolution_forward>(c, p.pass, d, d.forward(with_bias), &convolution_forward::primitive_desc::weights_desc);
      if (with_bias) c.add(DNNL_ARG_BIAS, d.bias);
    } else if (p.pass == Conv2dPass::dx) {
      make<convolution_backward_data>(c, p.pass, d, d.backward_x(),
                                      &convolution_backward_data::primitive_desc::weights_desc);
    } else {
      make<convolution_backward_weights>(c, p.pass, d, d.backward_weight(),
                                         &convolution_backward_weights::primitive_desc::diff_weights_desc);
    }
  } catch (const dnnl::error&) {  // for example bf16 on a processor that lacks it
    return {};
  }
  return c;
}

Convolution& convolution_of(const Conv2dProduct& p, bool bias) {
  thread_local Convolutions convolutions;
  const OneThread here;
  return convolutions.of(key_of(p, bias), [&] { return make_convolution(p, bias); });
}

// Computes a product that oneDNN covers, on this thread.
void run_convolution(const Conv2dProduct& p, const Conv2dBuffers& at) {
  Convolution& c = convolution_of(p, at.bias);
  const OneThread here;
  const auto packed = memory::allocate(Device::cpu, c.packed.get_desc().get_size());
  c.weight.set_data_handle(at.weight);
  c.packed.set_data_handle(packed.get());
  const Ids ids(p.pass);
  try {
    if (p.pass != Conv2dPass::dweight) c.reorder.execute(onednn_stream(), c.weight, c.packed);
    c.run({{ids.x, at.x}, {ids.weight, packed.get()}, {ids.y, at.y}, {DNNL_ARG_BIAS, at.bias}});
    if (p.pass == Conv2dPass::dweight) c.reorder.execute(onednn_stream(), c.packed, c.weight);
    onednn_stream().wait();
  } catch (const dnnl::error& e) {
    throw std::runtime_error(fmt::format("conv2d_channels_last: oneDNN failed: {}", e.what()));
  }
}

// A product over some images of the batch.
struct SomeImages {
  Conv2dProduct product;
  Conv2dBuffers at;
};

// Returns the number of images per part: enough for 50 us of work and for at most 16 parts, and at least 8, since each
// part packs the weights.
std::int64_t images_of_part(const Conv2dProduct& p) {
  const double of_one = 2.0 * double(p.s.places()) * double(p.weights());
  const double enough = (p.dtype == DType::bf16 ? 5e7 : 1e7) / of_one;
  return std::max({std::int64_t(std::min(enough, double(p.s.batch))), (p.s.batch + 15) / 16, std::int64_t(8)});
}

// Stores the sum of the parts' gradients, [parts, n]. The gradients are added in the order of the parts.
template <class T>
void add_up_parts(T* dweight, const float* gradients, std::int64_t parts, std::int64_t n) {
  parallel_ranges(n, parts, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float sum = 0;
      for (std::int64_t part = 0; part < parts; ++part) sum += gradients[part * n + i];
      dweight[i] = T(sum);
    }
  });
}

}  // namespace

bool onednn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at) {
  const std::int64_t images = images_of_part(p), parts = (p.s.batch + images - 1) / images;
  const std::int64_t weights = p.weights(), size = std::int64_t(size_of(p.dtype));
  const bool sums = p.pass == Conv2dPass::dweight && parts > 1;
  const auto part = [&](std::int64_t number) {
    const std::int64_t first = number * images;
    SomeImages some{p, at};
    some.product.s.batch = std::min(images, p.s.batch - first);
    some.product.f32_dweight |= sums;
    some.at.x = static_cast<char*>(at.x) + first * p.s.height * p.s.width * p.s.channels * size;
    some.at.y = static_cast<char*>(at.y) + first * p.s.places() * p.out * size;
    return some;
  };
  for (const std::int64_t number : {std::int64_t(0), parts - 1})  // the parts in between have the size of part 0
    if (!convolution_of(part(number).product, at.bias).primitive) return false;
  const auto scratch = memory::allocate(Device::cpu, sums ? std::size_t(parts * weights) * sizeof(float) : 0);
  const auto gradients = static_cast<float*>(scratch.get());
  parallel(parts, [&](std::int64_t number) {
    SomeImages some = part(number);
    if (sums) some.at.weight = gradients + number * weights;
    run_convolution(some.product, some.at);
  });
  if (sums && p.dtype == DType::bf16 && !p.f32_dweight)
    add_up_parts(static_cast<bf16*>(at.weight), gradients, parts, weights);
  else if (sums)
    add_up_parts(static_cast<float*>(at.weight), gradients, parts, weights);
  return true;
}

}  // namespace foldgrad
