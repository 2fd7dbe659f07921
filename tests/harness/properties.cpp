#include "tests/harness/properties.h"

template void rc::detail::checkGTest(void (*&&)());
template class rc::Gen<bool>;
template class rc::Gen<std::int64_t>;
template class rc::Gen<std::uint64_t>;
template class rc::Gen<std::uint32_t>;
template rc::Gen<std::int64_t> rc::gen::inRange(std::int64_t, std::int64_t);
template rc::Gen<std::uint32_t> rc::gen::inRange(std::uint32_t, std::uint32_t);
