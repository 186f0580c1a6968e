#include "backend/cuda/ranks/nccl_sum.h"

#include "core/errors/check.h"

namespace nibble::cuda {

NcclSum::NcclSum(const NcclGroup& group, int rank, const Config& config, int max_batch_tokens,
                 const Workspace& work)
    : work_(work),
      links_(group.links),
      hidden_(config.hidden),
      vocab_(config.vocab),
      nccl_(group, rank, config.hidden, max_batch_tokens) {}

void NcclSum::add_up(const LaunchContext& gpu, const HalfOutput& of, int first_row, int num_rows) const {
  const SumTerms& terms = of.terms;
  NIBBLE_CHECK(!terms.norm.weights, "a norm after a sum by NCCL");
  const auto first = static_cast<size_t>(first_row), at = first * static_cast<size_t>(hidden_);
  nccl_.sum(gpu, of.operation,
            // part_rows holds indices among the whole step's parts, so if it is set, `parts` begins at row 0.
            {terms.parts + (terms.part_rows ? 0 : first * terms.row_stride), terms.num_parts,
             terms.part_stride, terms.row_stride, terms.x + at, terms.out + at, num_rows, hidden_,
             terms.weights ? terms.weights + first * static_cast<size_t>(terms.num_parts) : nullptr,
             terms.part_rows ? terms.part_rows + first : nullptr});
}

void NcclSum::sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn) const {
  add_up(gpu, of, launch.first_row(), launch.num_rows());
}

void NcclSum::gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn) const {
  nccl_.gather_logits(work_.logits, outputs.count, vocab_, gpu.stream);
}

void NcclSum::send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn) const {
  if (links_) return;
  nccl_.broadcast(work_.results + outputs.first, static_cast<size_t>(outputs.count) * sizeof(SampleResult),
                  gpu.stream);
}

void NcclSum::run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn) const {
  for (const TrialSum& sum : sums) add_up(gpu, {Operation::kProject, sum.terms}, 0, sum.num_rows);
  // NCCL connects a pair of ranks at their first exchange, which would fail during graph capture. These
  // exchanges make the connections before any capture; their data is not used.
  nccl_.gather_logits(work_.logits, 1, vocab_, gpu.stream);
  nccl_.broadcast(work_.results, sizeof(SampleResult), gpu.stream);
}

void NcclSum::check_alive() const {
  if (links_) links_->check_alive();
  nccl_.check();
}

}  // namespace nibble::cuda
