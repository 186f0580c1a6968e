// Searches for stop strings in a text that comes in pieces. For any split, the result must equal a search of
// the whole text, and at every moment exactly the text that may still become a stop string is held back.
//
// The input is the number of stop strings (0 to 7), the stop strings, then the pieces of the text. Each
// string or piece is one byte for its length (0 to 15) and that many bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "core/errors/check.h"
#include "engine/stop.h"
#include "tests/engine/stop_oracle.h"

namespace {

class Input {
 public:
  Input(const uint8_t* data, size_t num_bytes) : rest_(reinterpret_cast<const char*>(data), num_bytes) {}
  bool is_empty() const { return rest_.empty(); }
  size_t number_below(size_t n) {
    if (rest_.empty()) return 0;
    const auto number = static_cast<uint8_t>(rest_.front()) % n;
    rest_.remove_prefix(1);
    return number;
  }
  std::string string() {
    const size_t num_bytes = std::min(number_below(16), rest_.size());
    const std::string text(rest_.substr(0, num_bytes));
    rest_.remove_prefix(num_bytes);
    return text;
  }

 private:
  std::string_view rest_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  std::vector<std::string> strings;
  for (size_t n = input.number_below(8); n > 0; --n)
    if (std::string string = input.string(); !string.empty()) strings.push_back(std::move(string));

  nibble::StopStrings stop(strings);
  std::string text, streamed;
  while (!input.is_empty()) {
    const std::string piece = input.string();
    text += piece;
    streamed += stop.push(piece);
    const nibble::StoppedText whole = nibble::cut_at_stop(text, strings);
    NIBBLE_CHECK(stop.has_stopped() == whole.has_stopped);
    if (whole.has_stopped) {
      NIBBLE_CHECK(streamed == whole.text, "'{}' is not '{}'", streamed, whole.text);
    } else {
      const size_t num_certain = text.size() - nibble::num_uncertain(text, strings);
      NIBBLE_CHECK(streamed == text.substr(0, num_certain), "'{}' of '{}'", streamed, text);
    }
  }
  streamed += stop.flush();
  NIBBLE_CHECK(streamed == nibble::cut_at_stop(text, strings).text, "'{}' of '{}'", streamed, text);
  return 0;
}
