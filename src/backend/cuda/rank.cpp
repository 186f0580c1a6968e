#include "backend/cuda/rank.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace nibble::cuda {
namespace {

constexpr unsigned long long kPatienceNs{20'000'000'000}, kTrialPatienceNs{5'000'000'000};
constexpr size_t kResultWords{sizeof(SampleResult) / sizeof(uint32_t)};
static_assert(sizeof(SampleResult) % sizeof(uint32_t) == 0);

// What a rank adds in a trial: exact in any order, and another number in each place.
float trial_term(int rank, size_t place) {
  return static_cast<float>((rank + 1) * static_cast<int>(place % 1000 + 1));
}

}  // namespace

Rank::Rank(const Weights& weights, const Share& share, const BackendOptions& options, const CudaOptions& own,
           Plan plan, const OwnedStream& stream)
    : share_(share),
      config_(config_of(weights.config, share)),
      plan_(std::move(plan)),
      weights_(upload(weights, share, options.dense, options.num_threads)),
      kv_(config_, options, stream),
      work_(config_, options, own, stream),
      inbox_(config_, share.num_ranks, options.max_batch_tokens, stream),
      input_(config_, options, *work_),
      max_batch_tokens_(options.max_batch_tokens),
      logits_(work_->logits) {}

void Rank::link(const std::vector<Rank*>& all, const StepNumbers& numbers, uint32_t* failure) {
  numbers_ = numbers;
  links_.rank = share_.rank;
  links_.num_ranks = share_.num_ranks;
  links_.hidden = config_.hidden;
  links_.row_room = std::min(max_batch_tokens_, kSumRows);
  links_.step = work_->step;
  links_.tags_per_step = static_cast<uint32_t>(numbers.count());
  links_.failure = failure;
  links_.patience_ns = kPatienceNs;
  for (size_t r = 0; r < all.size(); ++r) {
    links_.inboxes[r] = all[r]->inbox();
    results_of_all_.push_back(reinterpret_cast<uint32_t*>(all[r]->work_->results));
  }
  logits_ = all.front()->work_->logits;
}

void Rank::sum(const StepShape& shape, int half, int n, Turn turn, Stream stream) const {
  const HalfOutput output = output_of_half(model(), plan_, *work_, shape.num_tokens, half);
  const auto first = static_cast<size_t>(n * kSumRows), at = first * static_cast<size_t>(config_.hidden);
  sum_over_ranks(on(stream),
                 {links_, numbers_->of_sum(half, n), slot_of_sum(half, n, num_sums(shape)),
                  output.parts + first * output.row_stride, output.num_parts, output.part_stride,
                  output.row_stride, output.x ? output.x + at : nullptr, output.out + at,
                  std::min(kSumRows, shape.num_tokens - n * kSumRows),
                  output.weights ? output.weights + first * static_cast<size_t>(output.num_parts) : nullptr},
                 turn);
}

void Rank::meet_with_logits(int first_output, Turn turn, Stream stream) const {
  MeetArgs args{links_, numbers_->of_logits(first_output)};
  meet(on(stream), args, turn);
}

void Rank::meet_with_tokens(int first_output, int count, Turn turn, Stream stream) const {
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

int Rank::trial_rows() const { return std::min(max_batch_tokens_, kTaggedRows + 1); }

void Rank::begin_trial(Stream stream) const {
  std::vector<float> terms(static_cast<size_t>(trial_rows()) * static_cast<size_t>(config_.hidden));
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = trial_term(share_.rank, i);
  check(cudaMemcpyAsync(work_->project_parts, terms.data(), terms.size() * sizeof(float),
                        cudaMemcpyHostToDevice, stream),
        "trying the links");
  check(cudaStreamSynchronize(stream), "trying the links");
}

SumArgs Rank::trial_sum(int num_rows, int slot) const {
  SumArgs args{
      links_,  numbers_->last(), slot,    work_->project_parts, 1, 0, static_cast<size_t>(config_.hidden),
      nullptr, work_->x,         num_rows};
  args.links.patience_ns = kTrialPatienceNs;
  return args;
}

// The sum of more rows goes over that of one row. The step is number 0, which no batch has.
void Rank::run_trial(Turn turn, Stream stream) const {
  sum_over_ranks(on(stream), trial_sum(trial_rows(), 0), turn);
  sum_over_ranks(on(stream), trial_sum(1, 1), turn);
  MeetArgs args{links_, numbers_->last()};
  args.links.patience_ns = kTrialPatienceNs;
  meet(on(stream), args, turn);
}

bool Rank::trial_was_right(Stream stream) const {
  std::vector<float> sums(static_cast<size_t>(trial_rows()) * static_cast<size_t>(config_.hidden));
  check(cudaMemcpyAsync(sums.data(), work_->x, sums.size() * sizeof(float), cudaMemcpyDeviceToHost, stream),
        "trying the links");
  check(cudaStreamSynchronize(stream), "trying the links");
  for (size_t i = 0; i < sums.size(); ++i) {
    float expected = 0;
    for (int r = 0; r < share_.num_ranks; ++r) expected += trial_term(r, i);
    if (sums[i] != expected) return false;
  }
  return true;
}

}  // namespace nibble::cuda
