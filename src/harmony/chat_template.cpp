#include "harmony/chat_template.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "harmony/chat_template_lines.h"

namespace nibble::harmony {
namespace {

// kReleasedTemplateLines is the revision of 8 August 2025. Hashes (64 bits, of all lines) of other known
// templates:
constexpr uint64_t kOtherKnown[] = {
    0x3c3212d3b447f146,  // 7 August 2025
    0x8258089ddf6c2009,  // 5 August 2025
    0xd39b54f1bebb13ac,  // 4 August 2025
    0x15685b37882208e4,  // the bundled miniature
};

template <typename Hash>
Hash add(Hash hash, std::string_view text) {  // FNV-1a
  constexpr Hash kPrime = sizeof(Hash) == 4 ? Hash{0x01000193} : static_cast<Hash>(0x100000001b3);
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * kPrime;
  return hash;
}
uint32_t hash_of_line(std::string_view line) { return add(uint32_t{0x811c9dc5}, line); }

std::vector<std::string_view> lines_without_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    lines.push_back(line.substr(0, line.find_last_not_of(" \t\r") + 1));
    begin = end + 1;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

bool is_other_known(const std::vector<std::string_view>& lines) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view line : lines) hash = add(add(hash, line), "\n");
  return std::ranges::find(kOtherKnown, hash) != std::end(kOtherKnown);
}

}  // namespace

std::optional<TemplateDifference> difference_from_released(std::string_view chat_template) {
  const std::vector<std::string_view> lines = lines_without_ends(chat_template);
  const auto [mine, released] =
      std::ranges::mismatch(lines, kReleasedTemplateLines,
                            [](std::string_view line, uint32_t hash) { return hash_of_line(line) == hash; });
  const bool is_released = mine == lines.end() && released == std::end(kReleasedTemplateLines);
  if (is_released || is_other_known(lines)) return std::nullopt;
  return TemplateDifference{static_cast<int>(mine - lines.begin()) + 1,
                            std::string(mine == lines.end() ? std::string_view() : *mine)};
}

}  // namespace nibble::harmony
