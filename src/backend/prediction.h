// A backend's prediction of the times of a step, for a device that may be absent.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/operation.h"
#include "model/shares/expert_load.h"
#include "model/shares/share.h"

namespace nibble {

// A step of one sequence, or of several of the same size.
struct PredictedStep {
  int num_tokens{1};  // new tokens of each sequence; 1: decode
  int context{1};     // positions that the last new token attends to
  bool wants_next{true};
  int num_sequences{1};

  int num_rows() const { return num_sequences * num_tokens; }
};

// One operation of a step, summed over layers, in microseconds. Reading, converting and multiplying weights
// overlap: the longest counts, plus serial time (launches, all-reduces). An operation that is fused into
// another operation has no launch.
struct PredictedTime {
  Operation operation{};
  int num_launches{0};
  size_t bytes{0};  // bytes of weights and KV cache that the operation reads
  double memory{0}, issue{0}, products{0}, serial{0};

  double total() const;
  std::string_view bound() const;  // the largest of "memory", "issue", "products" and "serial"
  PredictedTime& operator+=(const PredictedTime& other);
};
double total_of(std::span<const PredictedTime> operations);

struct PredictedDevice {
  std::string description;       // one line
  double read_bandwidth{0};      // bytes per second, of the whole device
  bool is_read_measured{false};  // false: read_bandwidth is an estimate
  std::string read_source;
  size_t memory_bytes{0};
  bool uses_host_memory{false};  // the device uses the memory of the host
};

struct PredictedSharing {
  // Fixed time of an all-reduce of one row, without the transfer of its bytes. Not set: the time that the
  // devices' library takes.
  std::optional<double> sum_seconds{};
  ExpertSplit split{ExpertSplit::kUnits};
};

struct PredictedLink {
  double bandwidth{0};      // bytes per second, in one direction
  double sum_seconds{0};    // fixed time of an all-reduce of one row, without the transfer of its bytes
  bool is_measured{false};  // whether the numbers were measured; if false, they are estimates
  std::string source;
};

struct StepPrediction {
  PredictedDevice device;  // description of one device; all devices are equal
  // Times of the operations on the device with the largest share, in the order of the step. Serial times
  // include all-reduces.
  std::vector<PredictedTime> operations;
  PredictedLink link{};
  double sums{0};     // microseconds per step spent in all-reduces
  ExpertLoad load{};  // expected load per layer of the most loaded device
};

}  // namespace nibble
