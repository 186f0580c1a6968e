// A question that `nibble verify` asks a device before it checks its kernels: is it as they take it to be, and how fast is it?
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble {

struct ProbeFinding {
  enum class Result {
    kOk,       // as the kernels take it to be; or a measurement
    kTwin,     // the same, of a twin in software: the device does not have the instruction
    kMissing,  // the device does not have what is asked about, and needs it for no kernel
    kOther,    // not as the kernels take it to be
  };
  struct Figure {
    std::string name;  // with its unit
    double value;
  };
  Result result{};
  std::string found;  // a line
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
