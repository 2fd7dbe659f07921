// Names for the values of enumerations. Next to an enumeration, define a function that returns the names in order:
//   enum class Shape { round, square };
//   constexpr auto names_of(Shape) { return std::array{"round", "square"}; }
//
// Configurations use these names to read, write and explain the enumeration.
#pragma once
#include <array>
#include <cstddef>
#include <type_traits>

namespace foldgrad {

template <class Enum>
concept Named = std::is_enum_v<Enum> && requires(Enum e) {
  names_of(e);
};

template <Named Enum>
constexpr const char* name(Enum e) {
  return names_of(e)[std::size_t(e)];
}

// Returns all values in order.
template <Named Enum>
constexpr auto values_of(Enum) {
  std::array<Enum, names_of(Enum()).size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = Enum(i);
  return all;
}

}  // namespace foldgrad
