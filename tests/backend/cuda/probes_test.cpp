// Runs the probes of `nibble verify` (src/backend/cuda/verify/probes/) on this GPU: every probed property
// must be as the kernels expect. Needs a GPU.
#include "backend/cuda/verify/probes/probes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace nibble {

void PrintTo(const MachineProbe& probe, std::ostream* out) { *out << probe.name; }

namespace cuda::verify {
namespace {

class CudaProbes : public testing::TestWithParam<MachineProbe> {};
INSTANTIATE_TEST_SUITE_P(, CudaProbes, testing::ValuesIn(machine_probes().begin(), machine_probes().end()),
                         [](const auto& probe) {
                           std::string text(probe.param.name);
                           std::replace_if(
                               text.begin(), text.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return text;
                         });

TEST_P(CudaProbes, FindWhatKernelsExpect) {
  const ProbeFinding finding = GetParam().run();
  EXPECT_NE(finding.result, ProbeFinding::Result::kOther) << finding.found;
  fmt::print("{:<20} {:<8} {}\n", GetParam().name, name(finding.result), finding.found);
}

}  // namespace
}  // namespace cuda::verify
}  // namespace nibble
