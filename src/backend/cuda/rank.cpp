#include "backend/cuda/rank.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/chip/wait.h"
#include "core/check.h"

namespace nibble::cuda {
namespace {

constexpr unsigned long long kPatienceNs{20'000'000'000}, kTrialPatienceNs{5'000'000'000};
constexpr size_t kResultWords{sizeof(SampleResult) / sizeof(uint32_t)};
static_assert(sizeof(SampleResult) % sizeof(uint32_t) == 0);

// A rank's term in a trial. Sums of these are exact in any order, and adjacent elements differ.
float trial_term(int rank, size_t place) {
  return static_cast<float>((rank + 1) * static_cast<int>(place % 1000 + 1));
}

}  // namespace

Rank::Rank(const Weights& weights, RankPlan plan, const BackendOptions& options, const CudaOptions& own,
           const OwnedStream& stream)
    : share_(plan.share),
      config_(config_of(weights.config, share_)),
      plan_(std::move(plan.plan)),
      weights_(upload(weights, share_, options.dense, options.num_threads)),
      kv_(config_, options, stream),
      work_(config_, options, own, stream),
      input_(config_, options, work_->exchange, work_->step, share_.rank),
      max_batch_tokens_(options.max_batch_tokens),
      logits_(work_->logits) {}

void Rank::link(const std::vector<Rank*>& all, const StepNumbers& numbers, uint32_t* failure) {
  numbers_ = numbers;
  links_.rank = share_.rank;
  links_.num_ranks = share_.num_ranks;
  links_.hidden = config_.hidden;
  links_.own_room = own_room(share_.num_ranks, max_batch_tokens_);
  links_.step = work_->step;
  links_.tags_per_step = static_cast<uint32_t>(numbers.count());
  links_.failure = failure;
  links_.patience_ns = kPatienceNs;
  for (size_t r = 0; r < all.size(); ++r) {
    links_.inboxes[r] = **all[r]->inbox_;
    links_.outputs[r] = {all[r]->work_->x, all[r]->work_->normed.data};
    results_of_all_.push_back(reinterpret_cast<uint32_t*>(all[r]->work_->results));
  }
  logits_ = all.front()->work_->logits;
}

void Rank::take(const Batch& batch, Stream stream) {
  shape_ = input_.upload(batch, stream);
  if (shape_.num_tokens > 0) recipe_ = recipe(plan_, config_, sharing(), rows_of(shape_));
}

void Rank::sum(int half, int n, Turn turn, Stream stream) const {
  const HalfOutput output = output_of_half(step(stream), half);
  const int first_row = n * kSumRows, num_rows = std::min(kSumRows, shape_.num_tokens - first_row);
  if (nccl_) {
    const auto first = static_cast<size_t>(first_row), at = first * static_cast<size_t>(config_.hidden);
    return nccl_->sum(
        on(stream), output.operation,
        // part_rows counts from the first row of the step.
        {output.parts + (output.part_rows ? 0 : first * output.row_stride), output.num_parts,
         output.part_stride, output.row_stride, output.x + at, output.out + at, num_rows, config_.hidden,
         output.weights ? output.weights + first * static_cast<size_t>(output.num_parts) : nullptr,
         output.part_rows ? output.part_rows + first : nullptr});
  }
  sum_over_ranks(on(stream),
                 {links_,
                  output.operation,
                  numbers_->of_sum(half, n),
                  slot_of_sum(half, n, num_sums()),
                  first_row,
                  num_rows,
                  output.parts,
                  output.num_parts,
                  output.part_stride,
                  output.row_stride,
                  output.x,
                  output.out,
                  {output.norm, config_.rms_eps, output.image_rows},
                  output.weights,
                  output.part_rows},
                 turn);
}

void Rank::meet_with_logits(int first_output, int count, Turn turn, Stream stream) const {
  if (nccl_) return nccl_->gather_logits(logits_, count, config_.vocab, stream);
  MeetArgs args{links_, numbers_->of_logits(first_output)};
  meet(on(stream), args, turn);
}

void Rank::meet_with_tokens(int first_output, int count, Turn turn, Stream stream) const {
  if (nccl_)
    return nccl_->broadcast(work_->results + first_output, static_cast<size_t>(count) * sizeof(SampleResult),
                            stream);
  MeetArgs args{links_, numbers_->of_tokens(first_output)};
  if (share_.rank == 0) {
    const size_t first = static_cast<size_t>(first_output) * kResultWords;
    args.words = results_of_all_.front() + first;
    for (size_t r = 0; r < results_of_all_.size(); ++r) args.to[r] = results_of_all_[r] + first;
    args.num_words = count * static_cast<int>(kResultWords);
    args.exchange = work_->exchange;
  }
  meet(on(stream), args, turn);
}

int Rank::trial_rows() const { return std::min(max_batch_tokens_, tagged_rows(share_.num_ranks) + 1); }

void Rank::begin_trial(Stream stream) const {
  std::vector<float> terms(static_cast<size_t>(trial_rows()) * static_cast<size_t>(config_.hidden));
  const size_t bytes = terms.size() * sizeof(float);
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = trial_term(share_.rank, i);
  check(cudaMemcpyAsync(work_->project_parts, terms.data(), bytes, cudaMemcpyHostToDevice, stream),
        "testing the links");
  for (float* x : {work_->x, work_->experts_out})
    check(cudaMemsetAsync(x, 0, bytes, stream), "testing the links");
  wait_for_stream(stream, "testing the links");
}

SumArgs Rank::trial_sum(float* x, int num_rows) const {
  SumArgs args{links_,
               Operation::kProject,
               numbers_->last(),
               0,
               0,
               num_rows,
               work_->project_parts,
               1,
               0,
               static_cast<size_t>(config_.hidden),
               x,
               x,
               {}};
  args.links.patience_ns = kTrialPatienceNs;
  return args;
}

// Runs an all-reduce of trial_rows() rows (by owners, if steps can have enough rows), one of a single row by
// tagged words, and a meeting. The step number is 0, which no batch has.
void Rank::run_trial(Turn turn, Stream stream) const {
  if (nccl_) {
    const auto sum = [&](float* x, int num_rows) {
      nccl_->sum(
          on(stream), Operation::kProject,
          {work_->project_parts, 1, 0, static_cast<size_t>(config_.hidden), x, x, num_rows, config_.hidden});
    };
    sum(work_->x, trial_rows());
    sum(work_->experts_out, 1);
    // Unused data: these calls make NCCL connect all pairs of ranks, which it cannot do during graph capture.
    nccl_->gather_logits(logits_, 1, config_.vocab, stream);
    return nccl_->broadcast(work_->results, sizeof(SampleResult), stream);
  }
  sum_over_ranks(on(stream), trial_sum(work_->x, trial_rows()), turn);
  SumArgs one_row = trial_sum(work_->experts_out, 1);
  one_row.slot = 1;
  sum_over_ranks(on(stream), one_row, turn);
  MeetArgs args{links_, numbers_->last()};
  args.links.patience_ns = kTrialPatienceNs;
  meet(on(stream), args, turn);
}

bool Rank::trial_was_right(Stream stream) const {
  const auto is_right = [&](const float* x, int num_rows) {
    std::vector<float> sums(static_cast<size_t>(num_rows) * static_cast<size_t>(config_.hidden));
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
