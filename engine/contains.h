#pragma once
#include <algorithm>
#include <iterator>

namespace foldgrad {

// Returns true if an element of the list equals `value`.
template <class List, class Value>
bool contains(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

}  // namespace foldgrad
