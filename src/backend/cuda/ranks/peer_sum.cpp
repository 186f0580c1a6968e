#include "backend/cuda/ranks/peer_sum.h"

#include <utility>

namespace nibble::cuda {
namespace {

constexpr unsigned long long kPatienceNs{20'000'000'000}, kTrialPatienceNs{5'000'000'000};
constexpr size_t kResultWords{sizeof(SampleResult) / sizeof(uint32_t)};
static_assert(sizeof(SampleResult) % sizeof(uint32_t) == 0);

}  // namespace

PeerSum::PeerSum(const Config& config, int num_ranks, int max_batch_tokens, const Workspace& work,
                 Stream stream)
    : work_(work), inbox_(config, num_ranks, max_batch_tokens, stream), numbers_(config, max_batch_tokens) {
  links_.num_ranks = num_ranks;
  links_.hidden = config.hidden;
  links_.own_room = own_room(num_ranks, max_batch_tokens);
  links_.step = work.step;
  links_.tags_per_step = static_cast<uint32_t>(numbers_.count());
  links_.patience_ns = kPatienceNs;
}

void PeerSum::link(int rank, std::span<PeerSum* const> all, std::shared_ptr<FailureFlag> failure) {
  failure_ = std::move(failure);
  links_.rank = rank;
  links_.failure = failure_->data();
  for (size_t r = 0; r < all.size(); ++r) {
    links_.inboxes[r] = *all[r]->inbox_;
    links_.outputs[r] = {all[r]->work_.x, all[r]->work_.normed.data};
    results_of_all_.push_back(reinterpret_cast<uint32_t*>(all[r]->work_.results));
  }
  logits_ = all.front()->work_.logits;
}

void PeerSum::sum(const LaunchContext& gpu, const HalfOutput& of, const SumLaunch& launch, Turn turn) const {
  sum_over_ranks(gpu,
                 {links_, of.operation, numbers_.of_sum(launch.half, launch.number),
                  slot_of_sum(launch.half, launch.number, SumLaunch::count(launch.num_tokens)),
                  launch.first_row(), launch.num_rows(), of.terms},
                 turn);
}

void PeerSum::gather_logits(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const {
  meet(gpu, {links_, numbers_.of_logits(outputs.first)}, turn);
}

void PeerSum::send_tokens(const LaunchContext& gpu, const OutputRange& outputs, Turn turn) const {
  MeetArgs args{links_, numbers_.of_tokens(outputs.first)};
  if (links_.rank == 0) {
    const size_t first = static_cast<size_t>(outputs.first) * kResultWords;
    args.words = results_of_all_.front() + first;
    for (size_t r = 0; r < results_of_all_.size(); ++r) args.to[r] = results_of_all_[r] + first;
    args.num_words = outputs.count * static_cast<int>(kResultWords);
    args.exchange = work_.exchange;
  }
  meet(gpu, args, turn);
}

// Consecutive sums use different slots of the inbox (buffers for tagged words, protocol.h). The tags are
// those of step 0; batches begin at step 1.
void PeerSum::run_trial(const LaunchContext& gpu, std::span<const TrialSum> sums, Turn turn) const {
  Links links = links_;
  links.patience_ns = kTrialPatienceNs;
  int slot = 0;
  for (const TrialSum& sum : sums)
    sum_over_ranks(
        gpu, {links, Operation::kProject, numbers_.last(), slot++ % kInboxSlots, 0, sum.num_rows, sum.terms},
        turn);
  meet(gpu, {links, numbers_.last()}, turn);
}

}  // namespace nibble::cuda
