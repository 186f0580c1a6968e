// Probes that `nibble verify` runs first: does the device behave as kernels assume, and how fast is it?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble {

struct ProbeFinding {
  enum class Result {
    kOk,       // behaves as kernels assume; or the probe only measures
    kTwin,     // as kOk, but a software twin computes the result: the device lacks the instruction
    kMissing,  // the device lacks the feature, but its kernels don't need it
    kOther,    // does not behave as kernels assume
  };
  struct Figure {
    std::string name;  // name and unit
    double value;
  };
  Result result{};
  std::string found;  // the finding in one line
  std::vector<Figure> figures{};
};
constexpr std::string_view kProbeResults[]{"ok", "twin", "missing", "other"};
constexpr std::string_view name(ProbeFinding::Result result) {
  return kProbeResults[static_cast<int>(result)];
}

struct MachineProbe {
  std::string_view name;
  ProbeFinding (*run)();
};

}  // namespace nibble
