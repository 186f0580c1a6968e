// Server-sent events as they arrive, in pieces cut anywhere: the data of each event, comments and all other fields left out
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

class EventStream {
 public:
  // The data of the events that this completes.
  std::vector<std::string> push(std::string_view bytes);

 private:
  void end_line(std::vector<std::string>& events);

  std::string line_, data_;
  bool after_return_{false};  // a '\r' ended the last line: a '\n' that follows belongs to it
  bool has_data_{false};
};

}  // namespace nibble::cli
