#include "text/utf8_stream.h"

#include "text/utf8.h"

namespace nibble {
namespace {

constexpr std::string_view kReplacement{"\xEF\xBF\xBD"};  // U+FFFD

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  if (pending_.empty() && well_formed_prefix(bytes) == bytes.size()) return std::string(bytes);  // most calls
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string text;
  while (!rest.empty()) {
    const size_t well_formed = well_formed_prefix(rest);
    text += rest.substr(0, well_formed);
    rest.remove_prefix(well_formed);
    if (rest.empty()) break;
    const Utf8Part part = first_utf8_part(rest);
    if (part.kind == Utf8Kind::kIncomplete) break;
    text += kReplacement;
    rest.remove_prefix(part.num_bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace nibble
