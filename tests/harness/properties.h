// Includes RapidCheck. The templates that most properties instantiate are compiled only once, in properties.cpp.
#pragma once
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>

extern template void rc::detail::checkGTest(void (*&&)());
extern template class rc::Gen<bool>;
extern template class rc::Gen<std::int64_t>;
extern template class rc::Gen<std::uint64_t>;
extern template class rc::Gen<std::uint32_t>;
extern template rc::Gen<std::int64_t> rc::gen::inRange(std::int64_t, std::int64_t);
extern template rc::Gen<std::uint32_t> rc::gen::inRange(std::uint32_t, std::uint32_t);

namespace foldgrad::testing {

// Checks a property on `cases` cases; RC_GTEST_PROP checks 100. RC_PARAMS="max_success=1000" multiplies both by ten.
void check_property(int cases, void (*property)());

}  // namespace foldgrad::testing
