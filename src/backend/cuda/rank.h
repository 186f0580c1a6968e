// A rank: a GPU's share of the model, and the memory with which the GPU computes it.
#pragma once

#include <memory>
#include <utility>

#include "backend/cuda/draft/head_drafter.h"
#include "backend/cuda/operations.h"
#include "backend/cuda/ranks/rank_sum.h"
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
  // Allocates memory on the calling thread's GPU.
  Rank(const Weights& weights, RankPlan plan, const BackendOptions& options, const CudaOptions& own,
       const OwnedStream& stream);

  const Share& share() const { return share_; }
  const Plan& plan() const { return plan_; }
  const DeviceWeights& weights() const { return weights_; }
  const Workspace& work() const { return *work_; }
  InputUpload& input() { return input_; }
  // Uploads a batch's input (InputUpload::upload()). The other functions work on this batch's step until the
  // next take().
  void take(const Batch& batch, Stream stream);
  const StepShape& shape() const { return shape_; }
  void connect(std::unique_ptr<RankSum> sum) { sum_ = std::move(sum); }
  RankSum& connection() const { return *sum_; }

  // The step, for the functions of operations.h, forward.h and traced_values.h.
  Step step(Stream stream) const { return {model(), plan_, recipe_, *work_, shape_, stream}; }
  LaunchContext on(Stream stream) const { return {stream, plan_.target()}; }
  // The sum over ranks after each half of a layer (attention, experts) takes num_sums() launches. sum()
  // enqueues launch n.
  int num_sums() const { return SumLaunch::count(shape_.num_tokens); }
  void sum(int half, int n, Turn turn, Stream stream) const {
    sum_->sum(on(stream), output_of_half(step(stream), half), {half, n, shape_.num_tokens}, turn);
  }

  // The next three functions test the links between the ranks before the first step. begin_trial() stores
  // known terms. run_trial() sums them over the ranks twice: many rows, then one row. trial_was_right()
  // returns whether the sums are right.
  void begin_trial(Stream stream) const;
  void run_trial(Turn turn, Stream stream) const;
  bool trial_was_right(Stream stream) const;  // waits until the trial has ended

 private:
  Sharing sharing() const {
    return {share_.num_ranks > 1, sum_ && sum_->leaves_norms(), share_.has_own_sequences};
  }
  Model model() const { return {config_, weights_, kv_, sum_ ? sum_->logits() : work_->logits, &adapters_}; }
  int trial_rows() const;

  Share share_;
  Config config_;
  Plan plan_;
  DeviceWeights weights_;
  DeviceAdapters adapters_;
  KvStorage kv_;
  OwnedWorkspace work_;
  std::unique_ptr<RankSum> sum_;  // null if there is a single rank
  InputUpload input_;
  StepShape shape_;
  StepRecipe recipe_{};  // recipe of the step whose shape is shape_
  int max_batch_tokens_;
};

}  // namespace nibble::cuda
