#include "tests/harness/properties.h"

template void rc::detail::checkGTest(void (*&&)());
template class rc::Gen<bool>;
template class rc::Gen<std::int64_t>;
template class rc::Gen<std::uint64_t>;
template class rc::Gen<std::uint32_t>;
template rc::Gen<std::int64_t> rc::gen::inRange(std::int64_t, std::int64_t);
template rc::Gen<std::uint32_t> rc::gen::inRange(std::uint32_t, std::uint32_t);

namespace foldgrad::testing {

void check_property(int cases, void (*property)()) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test.test_suite_name()) + "/" + test.name();
  metadata.description = test.name();
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = int(std::int64_t(cases) * params.maxSuccess / rc::detail::TestParams().maxSuccess);
  const rc::detail::TestResult result = rc::detail::checkTestable(property, metadata, params);
  if (result.is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  ADD_FAILURE_AT(test.file(), test.line()) << message.str();
}

}  // namespace foldgrad::testing
