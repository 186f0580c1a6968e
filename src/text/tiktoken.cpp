// Reads a .tiktoken rank file: per line, a token's bytes in base64, a space, and its rank (id and priority).
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/errors/error.h"
#include "text/base64.h"
#include "text/bpe_model.h"
#include "text/expression.h"

namespace nibble {
namespace {

// Limits the time to find a token's merges: the search tries every split. o200k's longest token has 128
// bytes.
constexpr size_t kMaxTokenBytes{512};

// The control tokens of o200k_harmony. `distance`: the token's id, counted from the first id after the ranks.
struct Control {
  TokenId distance;
  std::string_view name;
};
constexpr Control kControls[] = {
    {0, "<|startoftext|>"}, {1, "<|endoftext|>"},    {4, "<|return|>"}, {5, "<|constrain|>"},
    {7, "<|channel|>"},     {8, "<|start|>"},        {9, "<|end|>"},    {10, "<|message|>"},
    {14, "<|call|>"},       {20, "<|endofprompt|>"},
};
constexpr TokenId kNumControls{21};

struct Line {
  std::string bytes;
  TokenId rank;
};

std::optional<Line> parse(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Line parsed;
  if (!decode_base64(line.substr(0, space), parsed.bytes)) return std::nullopt;
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + space + 1, end, parsed.rank);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return parsed;
}

Vocabulary read_ranks(std::string_view ranks, const std::string& origin) {
  if (ranks.ends_with('\n')) ranks.remove_suffix(1);
  const size_t num_lines = static_cast<size_t>(std::ranges::count(ranks, '\n')) + 1;
  if (num_lines > Vocabulary::kMaxId - kNumControls)
    throw InputError("{}: {} lines are more than the {} tokens that nibble supports.", origin, num_lines,
                     Vocabulary::kMaxId - kNumControls);
  Vocabulary vocabulary(num_lines);
  for (size_t number = 1; number <= num_lines; ++number) {
    const size_t end = std::min(ranks.find('\n'), ranks.size());
    std::string_view line = ranks.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto parsed = parse(line);
    if (!parsed)
      throw InputError(
          "{}: line {} must be a token in base64, a space and its rank. Give a tokenizer.json or a .tiktoken "
          "file.",
          origin, number);
    const auto& [bytes, rank] = *parsed;
    if (rank < 0 || static_cast<size_t>(rank) >= num_lines)
      throw InputError(
          "{}: line {} has rank {}, but {} tokens have the ranks 0 to {}. The file may be truncated.", origin,
          number, rank, num_lines, num_lines - 1);
    if (bytes.size() > kMaxTokenBytes)
      throw InputError("{}: line {} is a token of {} bytes; at most {} are supported.", origin, number,
                       bytes.size(), kMaxTokenBytes);
    if (!vocabulary.add(rank, bytes))
      throw InputError("{}: line {} repeats the token or the rank of an earlier line.", origin, number);
    ranks.remove_prefix(std::min(end + 1, ranks.size()));
  }
  return vocabulary;
}

// Makes a merge for each split of a token into two other tokens.
Merges merges_by_rank(const Vocabulary& vocabulary, const std::string& origin) {
  struct Rule {
    TokenId left, right, result;
  };
  std::vector<Rule> rules;
  for (TokenId id = 0; id < vocabulary.num_ids(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = vocabulary.find(bytes.substr(0, cut));
      if (!left) continue;
      const auto right = vocabulary.find(bytes.substr(cut));
      if (right) rules.push_back({*left, *right, id});
    }
  }
  Merges merges(rules.size(), byte_tokens(vocabulary, origin));
  for (const Rule& rule : rules)  // no two tokens have the same bytes, so all pairs differ
    (void)merges.add(rule.left, rule.right, {static_cast<uint32_t>(rule.result), rule.result});
  return merges;
}

void add_controls(Vocabulary& vocabulary) {
  const TokenId first = vocabulary.num_ids();
  for (TokenId distance = 0; distance < kNumControls; ++distance) {
    const auto* control = std::ranges::find(kControls, distance, &Control::distance);
    const TokenId id = first + distance;
    (void)vocabulary.add_special(
        id, control != std::end(kControls) ? std::string(control->name) : fmt::format("<|reserved_{}|>", id));
  }
}

}  // namespace

BpeModel read_tiktoken(std::string_view ranks, const std::string& origin) {
  Vocabulary vocabulary = read_ranks(ranks, origin);
  Merges merges = merges_by_rank(vocabulary, origin);
  add_controls(vocabulary);
  return {std::move(vocabulary), std::move(merges), std::string(kO200kExpression), true};
}

}  // namespace nibble
