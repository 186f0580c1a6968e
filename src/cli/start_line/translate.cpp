#include "cli/start_line/translate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/start_line/table.h"
#include "cli/start_line/values.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace nibble::cli {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;
using Rows = std::vector<const StartFlag*>;

constexpr std::string_view kDraftFlag{"--speculative-config"}, kGpusFlag{"--tensor-parallel-size"};

constexpr const char* kNumDraftRows{"num_speculative_tokens + 1"};

// Builds the JSON of --speculative-config from vLLM's dotted flags and from SGLang's flags.
class DraftConfig {
 public:
  // Adds members to the JSON. `flag`: the flag that sets them; flags() lists it.
  void add(const std::string& flag, const json& members) {
    flags_.push_back(flag);
    config_.update(members);
  }
  bool empty() const { return flags_.empty(); }
  // Returns all flags passed to add(): "--speculative-algorithm, --speculative-num-steps".
  std::string flags() const { return fmt::format("{}", fmt::join(flags_, ", ")); }

  // Returns the JSON. SGLang's --speculative-num-draft-tokens is the number of drafted tokens plus 1, for the
  // token that they follow. If drafts form a chain, not a tree, SGLang ignores this flag where the number of
  // steps is set.
  std::string text() const {
    const bool is_ngram = config_.value("method", json()) == "ngram";
    const bool is_tree = config_.value("topk", json(1)) != json(1);
    json config = json::object();
    for (const auto& [key, value] : config_.items())
      if (key != kNumDraftRows && !(is_ngram && key == "topk")) config[key] = value;
    const json num_rows = config_.value(kNumDraftRows, json());
    if (num_rows.is_number_integer() && (is_tree || !config.contains("num_speculative_tokens")))
      config["num_speculative_tokens"] = num_rows.get<int64_t>() - 1;
    return json_text(config);
  }

 private:
  std::vector<std::string> flags_;
  json config_ = json::object();
};

bool is_flag(std::string_view text) {  // false for a negative number
  return text.size() > 1 && text[0] == '-' && !std::isdigit(static_cast<unsigned char>(text[1])) &&
         text[1] != '.';
}

struct Given {        // one flag on the command line
  std::string typed;  // the flag with its value, for notes
  std::string name;   // underscores are replaced by dashes
  std::string path;   // "method" of --speculative-config.method; empty for all other flags
  std::optional<std::string> value;
};

// Splits an argument such as "--kv_cache_dtype=fp8", "-O3" or "-cc.mode=3" into the flag's name, path and
// value.
Given split_flag(const std::string& argument) {
  Given given;
  given.typed = argument;
  const size_t equals = argument.find('=');
  given.name = argument.substr(0, equals);
  if (equals != std::string::npos) given.value = argument.substr(equals + 1);
  if (given.name.size() == 3 && given.name.starts_with("-O") && !given.value) {
    given.value = given.name.substr(2);
    given.name.resize(2);
  }
  if (const size_t dot = given.name.find('.'); dot != std::string::npos) {
    given.path = given.name.substr(dot + 1);
    std::ranges::replace(given.path, '-', '_');
    given.name.resize(dot);
  }
  if (given.name.starts_with("--")) std::ranges::replace(given.name, '_', '-');
  return given;
}

std::string first_word(std::string_view text) { return std::string(text.substr(0, text.find(' '))); }

Rows rows_of(const std::string& name) {
  Rows rows;
  for (const StartFlagGroup& group : start_flag_groups())
    for (const StartFlag& row : group.flags) {
      const Texts names = split(row.names, ' ');
      if (std::ranges::find(names, name) != names.end()) rows.push_back(&row);
    }
  return rows;
}

const CLI::App* find_command(const CLI::App& parent, const std::string& name) {
  const auto all =
      parent.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return all.empty() ? nullptr : all.front();
}

class Translation {
 public:
  Translation(const CLI::App& command, const Texts& arguments) : command_(command), left_(arguments) {}

  StartLine run() {
    while (next_ < left_.size()) {
      const std::string& argument = left_[next_++];
      if (argument == "--") {
        keep(Texts(left_.begin() + static_cast<std::ptrdiff_t>(next_ - 1), left_.end()));
        break;
      }
      if (is_flag(argument)) {
        read_flag(argument);
      } else {
        has_model_ = true;
        keep({argument});
      }
    }
    add_drafts();
    check_experts();
    if (!refusals_.empty()) throw InputError("{}", fmt::join(refusals_, ". "));
    return std::move(line_);
  }

 private:
  struct Flag {
    Given given;
    Texts values;
    const CLI::Option* option;  // null: the command has no such flag
  };

  void keep(const Texts& arguments) {
    line_.arguments.insert(line_.arguments.end(), arguments.begin(), arguments.end());
  }
  bool has(std::string_view flag) const { return command_.get_option_no_throw(std::string(flag)); }
  void refuse(const std::string& flag, std::string_view why) {
    refusals_.push_back(fmt::format("{} is not supported: {}", flag, why));
  }

  void read_flag(const std::string& argument) {
    Flag flag{split_flag(argument), {}, nullptr};
    Given& given = flag.given;
    const Rows rows = has("--backend") ? rows_of(given.name) : Rows();
    if (given.path.empty()) flag.option = command_.get_option_no_throw(given.name);
    const Takes takes = rows.empty() ? Takes::kNothing : rows.front()->takes;
    if (!given.path.empty() && takes != Takes::kValue) return keep({argument});
    read_values(flag, rows.empty() ? nullptr : rows.front());
    if (rows.empty() || flag.option) {
      for (const StartFlag* row : rows)
        if (applies(*row, flag)) return apply(*row, flag);
      return keep_flag(flag, argument);
    }
    if (takes == Takes::kNothing && !flag.values.empty())
      return refuse(given.typed, "the flag takes no value");
    if (takes != Takes::kNothing && takes != Takes::kMaybe && flag.values.empty())
      return refuse(given.typed, "it needs a value");
    if (!given.path.empty() && !collect_member(flag)) return;
    for (const StartFlag* row : rows)
      if (applies(*row, flag)) return apply(*row, flag);
    keep_or_refuse(rows, flag, argument);
  }

  // Reads the flag's values. `row`: the flag's row in the table of other engines' flags; null: no row.
  void read_values(Flag& flag, const StartFlag* row) {
    Given& given = flag.given;
    if (given.value) {
      flag.values = {*given.value};
      return;
    }
    const Takes takes = row ? row->takes : Takes::kNothing;
    const bool takes_one = flag.option ? flag.option->get_expected_max() > 0
                                       : takes != Takes::kNothing && takes != Takes::kMaybe;
    // In "serve --served-model-name NAME MODEL", the second word after the flag is the model. So a flag that
    // nibble has too takes more than one value only if the model is already known.
    const bool takes_more = takes == Takes::kSeveral && (has_model_ || !flag.option);
    const auto may_follow = [&](const std::string& text) {
      if (takes == Takes::kMaybe) return matches_one(row->values, text);
      return flag.values.empty() ? takes_one : takes_more && !is_flag(text);
    };
    while (next_ < left_.size() && may_follow(left_[next_])) {
      flag.values.push_back(left_[next_++]);
      if (takes == Takes::kMaybe) break;
    }
    for (const std::string& value : flag.values) given.typed += " " + value;
  }

  void keep_flag(const Flag& flag, const std::string& argument) {
    const Given& given = flag.given;
    if (flag.option && (given.name == "--model" || given.name == "-m")) has_model_ = true;
    if (given.name == kDraftFlag) has_draft_flag_ = true;
    if (flag.option)
      keep({given.value ? fmt::format("{}={}", given.name, *given.value) : given.name});
    else
      keep({argument});
    if (!given.value) keep(flag.values);
  }

  // Turns the value of --name.path into JSON for --name. Returns false if the JSON was added to drafts_.
  bool collect_member(Flag& flag) {
    const json member = json_at(flag.given.path, flag.values.front());
    flag.values = {json_text(member)};
    if (flag.given.name != kDraftFlag && flag.given.name != "-sc") return true;
    drafts_.add(fmt::format("{}.{}", flag.given.name, flag.given.path), member);
    return false;
  }

  bool applies(const StartFlag& row, const Flag& flag) const {
    if (row.fate == Fate::kOwn) {
      // No conversion is needed for kValue: the flag is kept as it is.
      if (row.here.empty()) return flag.option && row.takes != Takes::kValue;
      return has(first_word(row.here));
    }
    if (row.fate == Fate::kMapped && !has(first_word(row.here))) return false;
    if (row.fate == Fate::kDraft && !has(kDraftFlag)) return false;
    return is_for_value(row, flag);
  }
  static bool is_for_value(const StartFlag& row, const Flag& flag) {
    if (row.values.empty()) return !flag.option;
    if (flag.values.empty()) return row.takes == Takes::kMaybe;
    return matches_one(row.values, compact_json(flag.values.front()));
  }

  void keep_or_refuse(const Rows& rows, const Flag& flag, const std::string& argument) {
    Texts expected;
    for (const StartFlag* row : rows) {
      // The table maps this value to a flag that the command lacks. Keep the other engine's flag: the parser
      // reports that it is unknown.
      if (is_for_value(*row, flag)) return keep_flag(flag, argument);
      if (row->fate == Fate::kRefused || row->fate == Fate::kOwn) continue;
      for (const std::string& value : split(row->values, '|')) expected.push_back(value);
    }
    if (expected.empty()) return keep_flag(flag, argument);
    refuse(flag.given.typed, fmt::format("expected {}", fmt::join(expected, ", ")));
  }

  void apply(const StartFlag& row, const Flag& flag) {
    const std::string& typed = flag.given.typed;
    switch (row.fate) {
      case Fate::kOwn:
      case Fate::kMapped:
        return replace(row, flag);
      case Fate::kDraft: {
        const size_t equals = row.here.find('=');
        const std::string_view key = row.here.substr(0, equals);
        const bool has_value = equals != std::string_view::npos;
        drafts_.add(flag.given.name,
                    json_at(key, has_value ? std::string(row.here.substr(equals + 1)) : flag.values.front()));
        return;
      }
      case Fate::kUnneeded:
        line_.notes.push_back(fmt::format("{} needs nothing: {}", typed, row.here));
        return;
      case Fate::kRefused:
        return refuse(typed, row.here);
    }
  }

  void replace(const StartFlag& row, const Flag& flag) {
    Texts values = flag.values;
    if (row.takes == Takes::kList) values = list_of(values.front());
    if (row.takes == Takes::kCount && !values.empty()) values.front() = plain_count(values.front());
    if (row.takes == Takes::kAllGpus) sizes_of_experts_.emplace_back(flag.given.typed, values.front());
    Texts words = split(row.here, ' ');
    if (words.empty()) words = {flag.given.name, "{}"};
    Texts arguments;
    const bool has_value = words.back().find("{}") != std::string::npos;
    if (!has_value) arguments = words;
    for (const std::string& value : has_value ? values : Texts()) {
      arguments.insert(arguments.end(), words.begin(), words.end());
      std::string& last = arguments.back();
      last.replace(last.find("{}"), 2, value);
    }
    if (has_value && values.empty()) arguments = {words.front()};  // the parser reports the missing value
    if (words.front() == "--model") has_model_ = true;
    if (words.front() == kDraftFlag) has_draft_flag_ = true;
    keep(arguments);
    if (row.fate == Fate::kOwn && values == flag.values) return;
    const std::string why = row.why.empty() ? "" : fmt::format(" ({})", row.why);
    line_.notes.push_back(
        fmt::format("{} is read as {}{}", flag.given.typed, fmt::join(arguments, " "), why));
  }

  void add_drafts() {
    if (drafts_.empty()) return;
    if (has_draft_flag_) refuse(drafts_.flags(), fmt::format("{} is given too", kDraftFlag));
    keep({std::string(kDraftFlag), drafts_.text()});
    line_.notes.push_back(fmt::format("{}: read as {} '{}'", drafts_.flags(), kDraftFlag, drafts_.text()));
  }

  void check_experts() {
    std::string num_gpus = "1";
    const Texts& arguments = line_.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Given given = split_flag(arguments[i]);
      if (given.name != kGpusFlag && given.name != "--tp") continue;
      num_gpus = given.value.value_or(i + 1 < arguments.size() ? arguments[i + 1] : "");
    }
    for (const auto& [typed, size] : sizes_of_experts_)
      if (size != num_gpus)
        refuse(typed,
               fmt::format("--expert-parallel places experts on all {} GPUs of {}", num_gpus, kGpusFlag));
  }

  const CLI::App& command_;
  const Texts& left_;
  size_t next_{0};
  bool has_model_{false}, has_draft_flag_{false};
  DraftConfig drafts_;
  // Flags that take Takes::kAllGpus, as typed, each with its value.
  std::vector<std::pair<std::string, std::string>> sizes_of_experts_;
  StartLine line_;
  Texts refusals_;
};

}  // namespace

StartLine translate(const CLI::App& program, const Texts& arguments) {
  const CLI::App* command = &program;
  size_t num_names = 0;  // number of words in the command's name: "bench serve" has two
  while (num_names < arguments.size()) {
    const CLI::App* next = find_command(*command, arguments[num_names]);
    if (!next) break;
    command = next;
    ++num_names;
  }
  const auto begin = arguments.begin() + static_cast<std::ptrdiff_t>(num_names);
  const Texts rest(begin, arguments.end());
  StartLine line = Translation(*command, rest).run();
  line.arguments.insert(line.arguments.begin(), arguments.begin(), begin);
  return line;
}

Texts hints_of_foreign_variables(const char* const* environment) {
  Texts hints;
  for (; *environment; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    for (const StartVariable& variable : start_variables())
      if (variable.name == name)
        hints.push_back(
            fmt::format("{} is read by {}, not by nibble; use {}", name, variable.engine, variable.instead));
  }
  return hints;
}

}  // namespace nibble::cli
