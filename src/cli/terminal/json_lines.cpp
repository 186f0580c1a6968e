#include "cli/terminal/json_lines.h"

#include <fmt/format.h>

#include <string>

#include "cli/terminal/terminal.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/text/json_text.h"
#include "core/text/take_until.h"
#include "harmony/json_text.h"

namespace nibble::cli {
namespace {

using Visit = std::function<void(const Json&)>;

void visit_line(std::string_view line, std::string_view origin, int number, const Visit& visit) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  try {
    // `visit` may recurse: parse_json() refuses deep nesting.
    visit(harmony::parse_json(line, "it"));
  } catch (const InputError& error) {
    throw InputError("{}, line {}: {}", origin, number, error.what());
  } catch (const Json::exception& error) {  // a field is missing or of the wrong type
    std::string_view what = error.what();
    what.remove_prefix(what.find(']') + 2);  // drop the prefix "[json.exception.type_error.302] "
    throw InputError("{}, line {}: {}", origin, number, what);
  }
}

}  // namespace

void answer_json_lines(const std::function<Json(const Json&)>& answer) {
  LineReader reader(/*interrupt=*/nullptr);
  std::string line, first_fault;
  int num_faults = 0;
  for (int number = 1; reader.read(line) == LineReader::Outcome::kLine; ++number) {
    try {
      visit_line(line, "stdin", number, [&](const Json& json) { print_json_line(answer(json)); });
    } catch (const InputError& error) {
      print_json_line({{"error", error.what()}});
      if (num_faults++ == 0) first_fault = error.what();
    }
  }
  if (num_faults > 1) throw InputError("{}; {} more lines have errors", first_fault, num_faults - 1);
  if (num_faults == 1) throw InputError("{}", first_fault);
}

void for_each_json_line(std::string_view text, std::string_view origin, const Visit& visit) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_until(text, '\n');
    visit_line(line, origin, number, visit);
  }
}

std::vector<TokenId> token_ids(const Json& list, const Tokenizer& tokenizer) {
  if (!list.is_array()) throw InputError("{} is not a list of token ids", list.dump());
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    // Compare as int64: the number in the file may exceed a TokenId.
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= tokenizer.num_tokens())
      throw InputError("{} is not a token id; expected 0 to {}", id.dump(), tokenizer.num_tokens() - 1);
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

void print_json_line(const Json& json) {
  fmt::print("{}\n", json_text(json));
  flush(stdout);
}

}  // namespace nibble::cli
