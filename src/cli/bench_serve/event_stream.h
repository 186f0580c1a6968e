// Parses server-sent events from a stream that arrives in arbitrary pieces. Keeps the data of each event;
// ignores comments and all other fields
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

class EventStream {
 public:
  // Returns the data of the events that `bytes` completes.
  std::vector<std::string> push(std::string_view bytes);

 private:
  void end_line(std::vector<std::string>& events);

  std::string line_, data_;
  bool after_return_{false};  // the last line ended in '\r': a '\n' right after it belongs to that line end
  bool has_data_{false};
};

}  // namespace nibble::cli
