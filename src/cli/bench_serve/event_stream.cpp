#include "cli/bench_serve/event_stream.h"

#include <utility>

namespace nibble::cli {

std::vector<std::string> EventStream::push(std::string_view bytes) {
  std::vector<std::string> events;
  for (const char byte : bytes) {
    const bool is_second_half = byte == '\n' && after_return_;
    after_return_ = byte == '\r';
    if (is_second_half) continue;
    if (byte == '\n' || byte == '\r')
      end_line(events);
    else
      line_ += byte;
  }
  return events;
}

void EventStream::end_line(std::vector<std::string>& events) {
  constexpr std::string_view kData{"data:"};
  if (line_.empty()) {
    if (has_data_) events.push_back(std::exchange(data_, {}));
    has_data_ = false;
  } else if (line_.starts_with(kData)) {
    if (has_data_) data_ += '\n';
    has_data_ = true;
    const size_t begin = kData.size() + (line_.size() > kData.size() && line_[kData.size()] == ' ');
    data_.append(line_, begin);
  }
  line_.clear();
}

}  // namespace nibble::cli
