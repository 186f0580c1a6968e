#include "backend/cuda/verify/checks.h"

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"

namespace nibble::cuda::verify {
namespace {

// Returns the check for a kernel, given the type of its launch function.
struct CheckOf {
  Check operator()(LaunchRows<EmbedArgs>) const { return &check_embed; }
  Check operator()(Launch<RmsNormArgs>) const { return &check_rms_norm; }
  Check operator()(Launch<QkvArgs>) const { return &check_qkv; }
  Check operator()(Launch<AppendArgs>) const { return &check_append; }
  Check operator()(LaunchRows<AttendArgs>) const { return &check_attend_rows; }
  Check operator()(LaunchRows<AttendTilesArgs>) const { return &check_attend_tiles; }
  Check operator()(Launch<ProjectArgs>) const { return &check_project; }
  Check operator()(Launch<RouteArgs>) const { return &check_route; }
  Check operator()(Launch<RouteAndExpertsUpArgs>) const { return &check_route_and_experts_up; }
  Check operator()(Launch<ExpertsUpArgs>) const { return &check_experts_up; }
  Check operator()(Launch<ExpertsDownArgs>) const { return &check_experts_down; }
  Check operator()(Launch<UnembedArgs>) const { return &check_unembed; }
  Check operator()(LaunchRows<SampleArgs>) const { return &check_sample; }
};

}  // namespace

Check check_of(const KernelRow& row) { return std::visit(CheckOf{}, row.launcher); }

KernelFinding check_row(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return check_of(row)(row, target, limits);
}

std::vector<KernelCheck> kernel_checks(const CudaOptions& options) {
  const Target target = target_of(device_caps(), options);
  std::vector<KernelCheck> checks;
  for (const KernelRow* row : rows_with_code_for(target, kernel_rows()))
    checks.push_back({name(*row), [row, target] { return check_row(*row, target, {}); }});
  return checks;
}

}  // namespace nibble::cuda::verify
