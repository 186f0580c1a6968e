// Parser of server-sent events that arrive in arbitrary pieces. Keeps each event's data; ignores comments and
// other fields (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
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
  bool after_return_{false};  // the last line ended in '\r': a '\n' directly after it ends the same line
  bool has_data_{false};
};

}  // namespace nibble::cli
