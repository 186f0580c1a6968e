// Implements RankSum by NCCL, for ranks on different machines, for GPUs without peer access, and if --nccl is
// given.
#pragma once

#include <memory>

#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/ranks/nccl_rank.h"
#include "backend/cuda/ranks/rank_sum.h"

namespace nibble::cuda {

class NcclSum final : public RankSum {
 public:
  // Uses the calling thread's GPU. Returns after all ranks have called this constructor. `work` must outlive
  // this object.
  NcclSum(const NcclGroup& group, int rank, const Config& config, int max_batch_tokens,
          const Workspace& work);

  bool leaves_norms() const override { return false; }
  float* logits() const override { return work_.logits; }
  void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn turn) const override;
  void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const override;
  void check_alive() const override;
  void abort() override { nccl_.abort(); }

 private:
  void add_up(const LaunchContext& gpu, const HalfOutput& of, int first_row, int num_rows) const;

  const Workspace& work_;
  std::shared_ptr<const RankLinks> links_;
  int hidden_, vocab_;
  NcclRank nccl_;
};

}  // namespace nibble::cuda
