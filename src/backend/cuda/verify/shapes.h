// The model shapes and numbers of tokens with which kernels are checked.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/verify/comparison.h"
#include "backend/cuda/verify/values.h"
#include "core/tensors/index_range.h"

namespace nibble::cuda::verify {

// Largest cases that a check runs. `nibble verify` sets no limits. Tests on an emulated GPU set them, because
// large cases take minutes there.
struct CaseLimits {
  int hidden{kAnyRows}, num_tokens{kAnyRows}, num_positions{kAnyRows};
};

struct Shape {
  int hidden, num_heads, num_kv_heads, num_experts, experts_per_token, intermediate, vocab;
  std::vector<int> tokens;
};

struct Case {
  Shape shape;
  int num_tokens;
  Values values;
  uint64_t seed;

  std::string text() const;
};

// Returns the experts that the checked rank holds: all experts in half of the cases, otherwise half of the
// experts.
IndexRange own_experts(const Case& c);

struct Subject {  // the kernel table row to check, and where to launch it
  const KernelRow& row;
  LaunchContext gpu;

  Stream stream() const { return gpu.stream; }
  // Launches the kernel once all inputs have arrived, and waits for the kernel. `args`: arguments of
  // KernelRow::launch(). `what` says what the GPU runs, for error messages.
  template <typename... Args>
  void run(const char* what, const Args&... args) const {
    check(cudaDeviceSynchronize(), "preparing a check");
    row.launch(gpu, args...);
    wait_for_stream(gpu.stream, what);
  }
};

// The functions check_...() run a kernel in one case and compare its results.
using CheckCase = void(Comparison& comparison, const Subject& subject, const Case& c);
CheckCase check_embed, check_rms_norm, check_qkv, check_project, check_route, check_experts_up,
    check_route_and_experts_up, check_experts_down, check_unembed, check_sample;
struct AttendCase;
using CheckAttendCase = void(Comparison& comparison, const Subject& subject, const AttendCase& c);
CheckAttendCase check_append, check_attend_rows, check_attend_tiles;

// Runs a check with typical values for each shape and each of its token counts. For one shape, also runs the
// check with all kinds of values, for up to four numbers of tokens; among them are the smallest and the
// largest number that `row` takes.
KernelFinding check_cases(const KernelRow& row, const Target& target, const CaseLimits& limits,
                          CheckCase* check_case);
// Runs a check of a kernel of attention in the cases of attention.cpp.
KernelFinding check_cases(const KernelRow& row, const Target& target, const CaseLimits& limits,
                          CheckAttendCase* check_case);

}  // namespace nibble::cuda::verify
