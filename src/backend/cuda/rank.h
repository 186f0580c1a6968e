// One device's share of the model, and what it works in; and a GPU with the ranks that it runs, which is one, or several for tests.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/draft/head_drafter.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/ranks/inbox.h"
#include "backend/cuda/ranks/nccl_rank.h"
#include "backend/cuda/step/step_graph.h"
#include "model/shares/share.h"

namespace nibble::cuda {

class Rank {
 public:
  // On the device that is current.
  Rank(const Weights& weights, const Share& share, const BackendOptions& options, const CudaOptions& own,
       Plan plan, const OwnedStream& stream);

  const Share& share() const { return share_; }
  const Plan& plan() const { return plan_; }
  const DeviceWeights& weights() const { return weights_; }
  const Workspace& work() const { return *work_; }
  InputUpload& input() { return input_; }
  // Has a batch's input ready (InputUpload::upload). Launches are of this step until the next call.
  void take(const Batch& batch, Stream stream);
  const StepShape& shape() const { return shape_; }
  // Ranks that write into each other's memory: each makes an inbox, on its device, and is linked once all have one; they are in their order.
  void make_inbox(Stream stream) { inbox_.emplace(config_, share_.num_ranks, max_batch_tokens_, stream); }
  void link(const std::vector<Rank*>& all, const StepNumbers& numbers, uint32_t* failure);
  // Ranks that NCCL connects. Returns when all are there.
  void join(std::shared_ptr<const Nccl> nccl, const GroupId& group, const std::vector<Share>& shares) {
    nccl_.emplace(std::move(nccl), group, shares, share_.rank, config_.hidden, max_batch_tokens_);
  }
  NcclRank* nccl() { return nccl_ ? &*nccl_ : nullptr; }

  void embed(Stream stream, const MadeDrafts& last_drafts) const { cuda::embed(step(stream), last_drafts); }
  int num_halves() const { return cuda::num_halves(model()); }
  void run_half(int half, Stream stream, const Tap& tap) const { run_half_layer(step(stream), half, tap); }
  // The n-th launch of the sum behind a half, and the number of them.
  int num_sums() const { return (shape_.num_tokens + kSumRows - 1) / kSumRows; }
  void sum(int half, int n, Turn turn, Stream stream) const;
  void unembed(int first, int count, Stream stream) const { cuda::unembed(step(stream), first, count); }
  void meet_with_logits(int first_output, int count, Turn turn, Stream stream) const;
  void sample(int first, int count, Stream stream) const { cuda::sample(step(stream), first, count); }
  void meet_with_tokens(int first_output, int count, Turn turn, Stream stream) const;
  void keep_drafts(Stream stream) const { cuda::keep_drafts(step(stream)); }  // after all tokens are chosen

  // A trial of the links before the first step: sums of 1 and of more rows, whose terms and results are known.
  void begin_trial(Stream stream) const;
  void run_trial(Turn turn, Stream stream) const;
  bool trial_was_right(Stream stream) const;  // waits for it

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
  StepRecipe recipe_{};  // of that step
  int max_batch_tokens_;
  float* logits_;
  Links links_;
  std::vector<uint32_t*> results_of_all_;
  std::optional<StepNumbers> numbers_;
};

}  // namespace nibble::cuda
