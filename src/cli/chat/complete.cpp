#include "cli/chat/complete.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

std::string common_prefix(const std::vector<std::string>& words) {
  std::string prefix = words.front();
  for (const std::string& word : words) {
    const auto [end, other] = std::mismatch(prefix.begin(), prefix.end(), word.begin(), word.end());
    prefix.erase(end, prefix.end());
  }
  return prefix;
}

// Chooses among `words`, which all begin with `begun`. `after` is appended if only one word is left.
Completion choose(std::vector<std::string> words, std::string_view begun, std::string_view after) {
  if (words.empty()) return {};
  std::ranges::sort(words);
  std::string insert = common_prefix(words).substr(begun.size());
  if (words.size() == 1 && !words.front().ends_with('/')) insert += after;
  if (!insert.empty()) return {std::move(insert), {}};
  return {"", std::move(words)};
}

Completion complete_file(std::string_view begun) {
  const size_t slash = begun.rfind('/');
  const std::string typed(begun.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
  const std::string name(begun.substr(typed.size()));
  fs::path folder = typed.empty() ? "." : typed;
  if (const char* home = std::getenv("HOME"); home && typed.starts_with("~/"))
    folder = home + typed.substr(1);
  std::vector<std::string> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (error) break;
    const std::string file = entry->path().filename().string();
    if (!file.starts_with(name) || (file.starts_with('.') && name.empty())) continue;
    std::error_code unknown;
    found.push_back(file + (entry->is_directory(unknown) ? "/" : ""));
  }
  return choose(std::move(found), name, "");
}

}  // namespace

Completion complete(std::string_view line, const std::vector<ChatName>& names) {
  if (!line.starts_with('/') || line.find('\n') != std::string_view::npos) return {};
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) {
    std::vector<std::string> found;
    for (const ChatName& row : names)
      if (row.name.starts_with(line.substr(1))) found.emplace_back(row.name);
    return choose(std::move(found), line.substr(1), " ");
  }
  for (const ChatName& row : names)
    if (row.takes_file && row.name == line.substr(1, space - 1)) return complete_file(line.substr(space + 1));
  return {};
}

}  // namespace nibble::cli
