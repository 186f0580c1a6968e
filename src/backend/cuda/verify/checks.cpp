#include "backend/cuda/verify/checks.h"

#include "backend/cuda/attention/args.h"
#include "backend/cuda/chip/device.h"
#include "backend/cuda/dense/args.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/sample/args.h"

namespace nibble::cuda::verify {
namespace {

// Runs the check of a kernel, given the type of its launch function.
struct CheckRow {
  const KernelRow& row;
  const Target& target;
  const CaseLimits& limits;

  KernelFinding operator()(LaunchRows<EmbedArgs>) const { return run(check_embed); }
  KernelFinding operator()(Launch<RmsNormArgs>) const { return run(check_rms_norm); }
  KernelFinding operator()(Launch<QkvArgs>) const { return run(check_qkv); }
  KernelFinding operator()(Launch<AppendArgs>) const { return run(check_append); }
  KernelFinding operator()(LaunchRows<AttendArgs>) const { return run(check_attend_rows); }
  KernelFinding operator()(LaunchRows<AttendTilesArgs>) const { return run(check_attend_tiles); }
  KernelFinding operator()(Launch<ProjectArgs>) const { return run(check_project); }
  KernelFinding operator()(Launch<RouteArgs>) const { return run(check_route); }
  KernelFinding operator()(Launch<RouteAndExpertsUpArgs>) const { return run(check_route_and_experts_up); }
  KernelFinding operator()(Launch<ExpertsUpArgs>) const { return run(check_experts_up); }
  KernelFinding operator()(Launch<ExpertsDownArgs>) const { return run(check_experts_down); }
  KernelFinding operator()(Launch<UnembedArgs>) const { return run(check_unembed); }
  KernelFinding operator()(LaunchRows<SampleArgs>) const { return run(check_sample); }

  template <typename Check>
  KernelFinding run(Check* check) const {
    return check_cases(row, target, limits, check);
  }
};

}  // namespace

KernelFinding check_row(const KernelRow& row, const Target& target, const CaseLimits& limits) {
  return std::visit(CheckRow{row, target, limits}, row.launcher);
}

std::vector<KernelCheck> kernel_checks(const CudaOptions& options) {
  const Target target = target_of(device_caps(), options);
  std::vector<KernelCheck> checks;
  for (const KernelRow* row : rows_with_code_for(target, kernel_rows()))
    checks.push_back({name(*row), [row, target] { return check_row(*row, target, {}); }});
  checks.push_back({"adapters", [target] { return check_adapters(target, {}); }});
  return checks;
}

}  // namespace nibble::cuda::verify
