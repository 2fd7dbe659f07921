#include "bench/op_collection.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/image_input/image_input.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad::bench {

void add_images(Benches& b) {
  const std::int64_t B = 2 * b.sizes.sentences;
  const double n = double(B) * 32 * 32 * 64;  // y has a quarter of these elements; argmax positions are bytes
  b.memory_bound(fmt::format("max_pool2d/{}x32x32x64", B), n + n / 4 + n / 16, n + n / 4 + n / 16,
                 {b.values({B, 32, 32, 64})},
                 [](const Vars& v) { return max_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); });
  const double rows = double(4 * B) * 64 * 128;
  b.memory_bound(fmt::format("weighted_pool/{}x64x128", 4 * B), rows, 2 * rows,
                 {b.values({4 * B, 64, 128}), b.values({4 * B, 64})},
                 [](const Vars& v) { return weighted_pool(v[0], v[1]); });
  const double weights = 2048 * 2048.;
  b.memory_bound("weight_standardize/2048x2048", 2 * weights, 3 * weights, {b.values({2048, 2048}), b.values({2048})},
                 [](const Vars& v) { return weight_standardize(v[0], v[1]); });
  const double tokens = double(B) * 64 * 512;
  b.memory_bound(fmt::format("drop_path/{}x64x512", B), 3 * tokens, 2 * tokens,
                 {b.values({B, 64, 512}), b.values({512}), b.values({B, 64, 512})}, [](const Vars& v) {
                   return bias_dropout_residual(v[0], v[1], v[2], 0, {}, {.p = 0.1, .random = {1, 2, 3}});
                 });
}

void add_image_input(Benches& b) {
  const std::int64_t B = 16 * b.sizes.sentences;
  const double pixels = double(B) * 32 * 32 * 3;
  b.memory_bound(fmt::format("image_input/{}x32x32x3", B), pixels + pixels / 4, 0, {b.bytes({B, 32, 32, 3})},
                 [](const Vars& v) { return image_input(v[0], {}, DType::f32); });
}

namespace {

// Convolves with 3 x 3 kernels that keep the size of the image.
Var convolve(const Var& x, const Var& weight, std::optional<Activation> activation = {}) {
  return conv2d_channels_last(x, weight, {.padding = 1, .activation = activation});
}

double convolution_flops(std::int64_t B, std::int64_t size, std::int64_t in, std::int64_t out) {
  return 2. * 9 * double(B * size * size * in * out);
}

}  // namespace

void add_convolution(Benches& b) {
  const std::int64_t B = 2 * b.sizes.sentences;
  const double flops = convolution_flops(B, 16, 64, 128);
  b.product(fmt::format("conv2d/{}x16x16x64x128", B), flops, 2 * flops,
            {b.values({B, 16, 16, 64}), b.values({128, 64, 3, 3})}, [](const Vars& v) { return convolve(v[0], v[1]); });
}

// Adds the input layers of a Compact Convolutional Transformer for images of 32 x 32, which need no gradient.
void add_stem(Benches& b) {
  const std::int64_t B = 2 * b.sizes.sentences;
  const Tensor images = b.values({B, 32, 32, 3});
  const double first = convolution_flops(B, 32, 3, 64), second = convolution_flops(B, 16, 64, 128);
  const Tensor weight = b.values({64, 3, 3, 3});
  b.product(fmt::format("conv2d_relu_image/{}x32x32x3x64", B), first, first, {weight},
            [=](const Vars& v) { return convolve(v[0].tape().constant(images), v[0], Activation::relu); });
  b.product(fmt::format("cct_stem/{}x32x32x3x64x128", B), first + second, first + 2 * second,
            {weight, b.values({128, 64, 3, 3})}, [=](const Vars& v) {
              Var x = v[0].tape().constant(images);
              for (const Var& w : v)
                x = max_pool2d(convolve(x, w, Activation::relu), {.kernel = 3, .stride = 2, .padding = 1});
              return x;
            });
}

}  // namespace foldgrad::bench
