// A rank: one device's share of the model, and the memory in which it computes.
#pragma once

#include <optional>
#include <vector>

#include "backend/cuda/draft/head_drafter.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/ranks/inbox.h"
#include "backend/cuda/ranks/nccl_rank.h"
#include "backend/cuda/step/step_graph.h"
#include "model/shares/share.h"

namespace nibble::cuda {

struct RankPlan {
  Share share;
  int device;
  Plan plan;
};

class Rank {
 public:
  // Allocates on the current device.
  Rank(const Weights& weights, RankPlan plan, const BackendOptions& options, const CudaOptions& own,
       const OwnedStream& stream);

  const Share& share() const { return share_; }
  const Plan& plan() const { return plan_; }
  const DeviceWeights& weights() const { return weights_; }
  const Workspace& work() const { return *work_; }
  InputUpload& input() { return input_; }
  // Uploads a batch's input (InputUpload::upload). Launches until the next call are of this step.
  void take(const Batch& batch, Stream stream);
  const StepShape& shape() const { return shape_; }
  // For ranks that write into each other's memory: make_inbox() on all, then link(). `all`: in rank order.
  void make_inbox(Stream stream) { inbox_.emplace(config_, share_.num_ranks, max_batch_tokens_, stream); }
  void link(const std::vector<Rank*>& all, const StepNumbers& numbers, uint32_t* failure);
  // For ranks that NCCL connects. Returns when all ranks have called it.
  void join(const NcclGroup& group) { nccl_.emplace(group, share_.rank, config_.hidden, max_batch_tokens_); }
  NcclRank* nccl() { return nccl_ ? &*nccl_ : nullptr; }

  void embed(Stream stream, const MadeDrafts& last_drafts) const { cuda::embed(step(stream), last_drafts); }
  int num_halves() const { return cuda::num_halves(model()); }
  void run_half(int half, Stream stream, const Tap& tap) const { run_half_layer(step(stream), half, tap); }
  // num_sums(): launches of the all-reduce after half a layer. sum(): enqueues launch n.
  int num_sums() const { return (shape_.num_tokens + kSumRows - 1) / kSumRows; }
  void sum(int half, int n, Turn turn, Stream stream) const;
  void unembed(int first, int count, Stream stream) const { cuda::unembed(step(stream), first, count); }
  void meet_with_logits(int first_output, int count, Turn turn, Stream stream) const;
  void sample(int first, int count, Stream stream) const { cuda::sample(step(stream), first, count); }
  void meet_with_tokens(int first_output, int count, Turn turn, Stream stream) const;
  void keep_drafts(Stream stream) const { cuda::keep_drafts(step(stream)); }  // after all tokens are chosen

  // Tests the links before the first step: sums of one row and of more, with known terms and results.
  void begin_trial(Stream stream) const;
  void run_trial(Turn turn, Stream stream) const;
  bool trial_was_right(Stream stream) const;  // waits for the trial

 private:
  Sharing sharing() const {
    const bool is_shared = share_.num_ranks > 1;
    return {is_shared, is_shared && !nccl_, share_.has_own_sequences};
  }
  Model model() const { return {config_, weights_, kv_, logits_}; }
  Step step(Stream stream) const { return {model(), plan_, recipe_, *work_, shape_, stream}; }
  LaunchContext on(Stream stream) const { return {stream, plan_.target()}; }
  int trial_rows() const;
  SumArgs trial_sum(float* x, int num_rows) const;

  Share share_;
  Config config_;
  Plan plan_;
  DeviceWeights weights_;
  KvStorage kv_;
  OwnedWorkspace work_;
  std::optional<OwnedInbox> inbox_;
  std::optional<NcclRank> nccl_;
  InputUpload input_;
  StepShape shape_;
  StepRecipe recipe_{};  // of the same step as shape_
  int max_batch_tokens_;
  float* logits_;
  Links links_;
  std::vector<uint32_t*> results_of_all_;
  std::optional<StepNumbers> numbers_;
};

}  // namespace nibble::cuda
