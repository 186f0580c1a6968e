// A backend's prediction of a step on a device that need not be here, in the form that every backend reports.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/operation.h"
#include "model/shares/expert_load.h"
#include "model/shares/share.h"

namespace nibble {

// A step of one sequence, or of several that are alike.
struct PredictedStep {
  int num_tokens{1};  // new ones of each sequence; 1: decoding
  int context{1};     // positions that the last of them sees
  bool wants_next{true};
  int num_sequences{1};

  int num_rows() const { return num_sequences * num_tokens; }
};

// An operation of a step, summed over the layers; times in microseconds. Memory, the issue of instructions and the tensor cores work at
// the same time: an operation takes the longest of the three, and what is serial. An operation that is part of another's launch has no
// launches of its own.
struct PredictedTime {
  Operation operation{};
  int num_launches{0};
  size_t bytes{0};  // of weights and KV cache
  double memory{0}, issue{0}, products{0}, serial{0};

  double total() const;
  std::string_view bound() const;  // the largest part: "memory", "issue", "products" or "serial"
  PredictedTime& operator+=(const PredictedTime& other);
};

struct PredictedDevice {
  std::string description;       // in a line
  double read_bandwidth{0};      // bytes per second, of the whole device
  bool is_read_measured{false};  // else expected
  std::string read_source;
  size_t memory_bytes{0};
};

// How several devices share a model.
struct PredictedSharing {
  // How long a sum of one row takes, beside its bytes; not set: as long as their library takes.
  std::optional<double> sum_seconds{};
  ExpertSplit split{ExpertSplit::kUnits};
};

// How several devices are linked.
struct PredictedLink {
  double bandwidth{0};      // bytes per second, one way
  double sum_seconds{0};    // of a sum of one row, beside its bytes
  bool is_measured{false};  // else expected
  std::string source;
};

struct StepPrediction {
  PredictedDevice device;  // one of them
  // In the order of a step. Of several devices: those of the one with the largest share, in whose serial times the sums are.
  std::vector<PredictedTime> operations;
  PredictedLink link{};
  double sums{0};     // microseconds of a step that sums over devices take
  ExpertLoad load{};  // in a layer, of the device with the most
};

}  // namespace nibble
