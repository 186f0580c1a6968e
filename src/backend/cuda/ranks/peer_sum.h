// Implements RankSum for the ranks of one process whose GPUs write to each other's memory (sum.h).
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/memory/workspace.h"
#include "backend/cuda/ranks/inbox.h"
#include "backend/cuda/ranks/rank_sum.h"

namespace nibble::cuda {

class PeerSum final : public RankSum {
 public:
  // Allocates the rank's inbox on the calling thread's GPU, and enqueues in `stream` the work that zeros the
  // inbox. `work` must outlive this object. Construct the PeerSums of all ranks, wait for their streams, then
  // call link() of each.
  PeerSum(const Config& config, int num_ranks, int max_batch_tokens, const Workspace& work, Stream stream);
  // `all`: the PeerSums of all ranks, in rank order. All ranks share one `failure`.
  void link(int rank, std::span<PeerSum* const> all, std::shared_ptr<FailureFlag> failure);

  bool leaves_norms() const override { return true; }
  float* logits() const override { return logits_; }
  void sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn turn) const override;
  void gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const override;
  void run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const override;
  bool take_timeout() override { return failure_->take(); }

 private:
  const Workspace& work_;
  // The flag is declared before inbox_, so that the flag is freed after the inbox: freeing the inbox waits
  // for kernels that may read the flag.
  std::shared_ptr<FailureFlag> failure_;
  OwnedInbox inbox_;
  StepNumbers numbers_;
  Links links_;
  float* logits_{nullptr};  // logits in the first rank's memory
  // For each rank, the array Workspace::results in that rank's memory (a SampleResult per output, as 32-bit
  // words). Only the first rank samples; its send_tokens() copies its own results to the arrays of all ranks.
  std::vector<uint32_t*> results_of_all_;
};

}  // namespace nibble::cuda
