#include "backend/cuda/rank.h"

#include <algorithm>

#include "backend/cuda/chip/wait.h"

namespace nibble::cuda {
namespace {

// Returns the term of a rank in element `place` of a trial sum (Rank::begin_trial()). Terms are small whole
// numbers, so sums of them are exact. Adjacent elements and different ranks have different terms.
float trial_term(int rank, size_t place) {
  return static_cast<float>((rank + 1) * static_cast<int>(place % 1000 + 1));
}

}  // namespace

Rank::Rank(const Weights& weights, RankPlan plan, const BackendOptions& options, const CudaOptions& own,
           const OwnedStream& stream)
    : share_(plan.share),
      config_(config_of(weights.config, share_)),
      plan_(std::move(plan.plan)),
      // The ranks of a process load in parallel. Only the first rank reports progress, because reports of
      // several ranks would overlap.
      weights_(upload(weights, share_, options.dense, options.num_threads,
                      share_.rank == own.node_rank.value_or(0) ? options.report_upload : ReportProgress{})),
      adapters_(options.adapters ? upload_adapters(*options.adapters) : DeviceAdapters{}),
      kv_(config_, options, stream),
      work_(config_, options, own, stream),
      input_(config_, options, work_->exchange, work_->step, share_.rank),
      max_batch_tokens_(options.max_batch_tokens) {}

void Rank::take(const Batch& batch, Stream stream) {
  shape_ = input_.upload(batch, stream);
  if (shape_.num_tokens > 0) recipe_ = recipe(plan_, config_, sharing(), rows_of(shape_));
}

int Rank::trial_rows() const { return std::min(max_batch_tokens_, tagged_rows(share_.num_ranks) + 1); }

void Rank::begin_trial(Stream stream) const {
  std::vector<float> terms(size_t{1} * trial_rows() * config_.hidden);
  const size_t bytes = terms.size() * sizeof(float);
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = trial_term(share_.rank, i);
  check(cudaMemcpyAsync(work_->project_parts, terms.data(), bytes, cudaMemcpyHostToDevice, stream),
        "testing the links");
  for (float* x : {work_->x, work_->experts_out})
    check(cudaMemsetAsync(x, 0, bytes, stream), "testing the links");
  wait_for_stream(stream, "testing the links");
}

// Runs two sums, so that both kernels of PeerSum are tested. It sums trial_rows() rows by sum_dealt(), unless
// max_batch_tokens is too small for that, and a single row by sum_words().
void Rank::run_trial(Turn turn, Stream stream) const {
  const auto terms_to = [&](float* x) {
    return SumTerms{work_->project_parts, 1, 0, static_cast<size_t>(config_.hidden), x, x, {}};
  };
  const TrialSum sums[]{{terms_to(work_->x), trial_rows()}, {terms_to(work_->experts_out), 1}};
  sum_->run_trial(on(stream), sums, turn);
}

bool Rank::trial_was_right(Stream stream) const {
  const auto is_right = [&](const float* x, int num_rows) {
    std::vector<float> sums(size_t{1} * num_rows * config_.hidden);
    check(cudaMemcpyAsync(sums.data(), x, sums.size() * sizeof(float), cudaMemcpyDeviceToHost, stream),
          "testing the links");
    wait_for_stream(stream, "testing the links");
    for (size_t i = 0; i < sums.size(); ++i) {
      float expected = 0;
      for (int r = 0; r < share_.num_ranks; ++r) expected += trial_term(r, i);
      if (sums[i] != expected) return false;
    }
    return true;
  };
  return is_right(work_->x, trial_rows()) && is_right(work_->experts_out, 1);
}

}  // namespace nibble::cuda
