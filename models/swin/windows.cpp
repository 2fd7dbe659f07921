#include "models/swin/windows.h"

namespace foldgrad {
namespace {

// Calls take(window, token, row, column) for each token of each window, in order; row and column are in the rolled map.
template <class Take>
void for_tokens(std::int64_t side, std::int64_t size, const Take& take) {
  for (std::int64_t row = 0; row < side; row += size)
    for (std::int64_t column = 0; column < side; column += size)
      for (std::int64_t r = 0; r < size; ++r)
        for (std::int64_t c = 0; c < size; ++c)
          take((row * (side / size) + column) / size, r * size + c, row + r, column + c);
}

RowOrder order_of(std::int64_t side, std::int64_t size, std::int64_t shift, Device device) {  // [SWIN-2]
  std::vector<std::int64_t> order;
  for_tokens(side, size, [&](std::int64_t, std::int64_t, std::int64_t row, std::int64_t column) {
    order.push_back((row + shift) % side * side + (column + shift) % side);
  });
  return RowOrder(order, device);
}

// Returns the table row for each pair of tokens [SWIN-3].
Tensor table_rows_of(std::int64_t size, Device device) {
  std::vector<std::int64_t> rows;
  const std::int64_t tokens = size * size;
  for (std::int64_t a = 0; a < tokens; ++a)
    for (std::int64_t b = 0; b < tokens; ++b)
      rows.push_back((a / size - b / size + size - 1) * (2 * size - 1) + a % size - b % size + size - 1);
  return Tensor::of({tokens * tokens}, rows).to(device);
}

Tensor mask_of(std::int64_t side, std::int64_t size, std::int64_t shift, std::int64_t heads) {  // [SWIN-3]
  constexpr double kOtherBand = -100;
  const std::int64_t count = side / size * (side / size), tokens = size * size;
  const auto band = [&](std::int64_t place) { return int(place >= side - size) + int(place >= side - shift); };
  std::vector<int> bands(std::size_t(count * tokens));  // each token's row band and column band, as one number
  for_tokens(side, size, [&](std::int64_t window, std::int64_t token, std::int64_t row, std::int64_t column) {
    bands[std::size_t(window * tokens + token)] = 3 * band(row) + band(column);
  });
  const Tensor mask = Tensor::empty({count, heads, tokens * tokens}, DType::f64);
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    const int* of_window = bands.data() + i / (heads * tokens * tokens) * tokens;
    mask.data<double>()[i] = of_window[i / tokens % tokens] == of_window[i % tokens] ? 0 : kOtherBand;
  }
  return mask;
}

}  // namespace

MapWindows::MapWindows(std::int64_t side, std::int64_t size, std::int64_t shift, std::int64_t heads, DType dtype,
                       Device device)
    : count(side / size * (side / size)),
      tokens(size * size),
      order(order_of(side, size, shift, device)),
      table_rows(table_rows_of(size, device)),
      mask(shift > 0 ? mask_of(side, size, shift, heads).to(dtype).to(device) : Tensor()) {}

RowOrder neighbours(std::int64_t side, Device device) {
  std::vector<std::int64_t> order;
  for (std::int64_t row = 0; row < side; row += 2)
    for (std::int64_t column = 0; column < side; column += 2)
      for (std::int64_t right : {0, 1})
        for (std::int64_t down : {0, 1}) order.push_back((row + down) * side + column + right);
  return RowOrder(order, device);
}

}  // namespace foldgrad
