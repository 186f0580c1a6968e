#include "backend/cuda/chip/recorder.h"

#include "backend/cuda/chip/launch_counts.h"
#include "core/errors/check.h"

namespace nibble::cuda {

Recorder::Recorder() : times_(3 * kMaxLaunches * sizeof(unsigned long long)) {}

Timestamps Recorder::next(const Label& label, bool is_draft) {
  NIBBLE_CHECK(launches_.size() < kMaxLaunches, "more than {} launches", kMaxLaunches);
  auto* times = times_.as<unsigned long long>() + launches_.size();
  launches_.push_back({label, is_draft});
  return {times, times + kMaxLaunches, times + 2 * kMaxLaunches};
}

// Atomics of the CTAs lower `begin`, and raise `middle` and `end`. So `begin` starts at the largest number,
// and `middle` and `end` start at 0.
void Recorder::clear(cudaStream_t stream) {
  const size_t bytes = kMaxLaunches * sizeof(unsigned long long);
  check(cudaMemsetAsync(times_.as<void>(), 0xFF, bytes, stream), "clearing times");
  check(cudaMemsetAsync(times_.as<uint8_t>() + bytes, 0, 2 * bytes, stream), "clearing times");
}

std::vector<TimedWork> Recorder::read() const {
  std::vector<unsigned long long> times(3 * kMaxLaunches);
  check(cudaMemcpy(times.data(), times_.as<void>(), times_.bytes(), cudaMemcpyDeviceToHost), "copying times");
  const unsigned long long zero = times[0];
  const auto microseconds = [&](unsigned long long time) { return static_cast<double>(time - zero) / 1e3; };
  std::vector<TimedWork> work;
  for (size_t i = 0; i < launches_.size(); ++i) {
    const auto& [label, is_draft] = launches_[i];
    double begin = microseconds(times[i]);
    if (label.first_name) {
      const double middle = microseconds(times[kMaxLaunches + i]);
      work.push_back({label.first_operation, label.first_name, begin, middle, is_draft});
      begin = middle;
    }
    work.push_back({label.operation, label.name, begin, microseconds(times[2 * kMaxLaunches + i]), is_draft});
  }
  return work;
}

Timestamps register_launch(const Stream& stream, const Label& label) {
  if (stream.counts) stream.counts->count(label.name);
  return stream.recorder ? stream.recorder->next(label, stream.is_draft) : Timestamps{};
}

}  // namespace nibble::cuda
