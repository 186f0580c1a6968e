// Compares the table of other engines' flags with nibble's own flags and with docs/start-lines.md.
#include "cli/start_line/table.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "cli/command.h"
#include "cli/start_line/values.h"
#include "core/program/settings.h"
#include "tests/folders.h"

namespace nibble::cli {
namespace {

const std::regex kFlag("--[a-z][a-z0-9-]*");

std::string in_code(const std::string& text) { return "`" + text + "`"; }

std::string flags_in_code(std::string_view text) {
  return std::regex_replace(std::string(text), kFlag, "`$&`");
}

std::string with_value(std::string_view here) {  // "--context {}" becomes `--context VALUE`
  return in_code(std::regex_replace(std::string(here), std::regex("\\{\\}"), "VALUE"));
}

std::string listed(std::string_view texts, char separator) {
  std::string list;
  for (const std::string& text : split(texts, separator)) list += (list.empty() ? "" : ", ") + in_code(text);
  return list;
}

std::string meaning(const StartFlag& row) {
  const std::string why = row.why.empty() ? "" : "; " + flags_in_code(row.why);
  switch (row.fate) {
    case Fate::kOwn:
      if (!row.here.empty()) return with_value(row.here);
      return row.takes == Takes::kCount ? "the same, also as `32k` or `32K`" : "the same";
    case Fate::kMapped:
      return with_value(row.here) + why;
    case Fate::kDraft:
      return "`--speculative-config`: " + in_code(std::string(row.here)) + why;
    case Fate::kUnneeded:
      return "nothing: " + flags_in_code(row.here);
    case Fate::kRefused:
      return "refused: " + flags_in_code(row.here);
  }
  return "";
}

std::string documented() {
  std::ostringstream text;
  for (const StartFlagGroup& group : start_flag_groups()) {
    text << "\n## " << group.title << "\n\n| flag | of | value | nibble |\n| --- | --- | --- | --- |\n";
    std::set<std::string> seen;
    for (const StartFlag& row : group.flags) {
      bool is_first = true;
      for (const std::string& name : split(row.names, ' ')) is_first = seen.insert(name).second && is_first;
      const std::string others = is_first ? "" : "any other";
      text << "| " << listed(row.names, ' ') << " | " << row.engines << " | "
           << (row.values.empty() ? others : listed(row.values, '|')) << " | " << meaning(row) << " |\n";
    }
  }
  text << "\n## Environment variables\n\n| variable | of | instead |\n| --- | --- | --- |\n";
  for (const StartVariable& variable : start_variables())
    text << "| " << in_code(std::string(variable.name)) << " | " << variable.engine << " | "
         << flags_in_code(variable.instead) << " |\n";
  return text.str();
}

TEST(StartFlags, AreInTheDocument) {
  std::ifstream file(test::source_path("docs/start-lines.md"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str(), begin = "<!-- src/cli/start_line/table.cpp -->\n";
  const size_t place = document.find(begin);
  ASSERT_NE(place, std::string::npos);
  const std::string own = document.substr(0, place + begin.size());
  if (document == own + documented()) return;
  const std::string expected = test::build_path("start-lines.md");
  std::ofstream(expected) << own << documented();
  ADD_FAILURE() << "docs/start-lines.md differs from the table: copy " << expected;
}

TEST(StartFlags, TakeTheSameInAllRowsOfAName) {
  std::map<std::string, Takes> takes;
  for (const StartFlagGroup& group : start_flag_groups())
    for (const StartFlag& row : group.flags)
      for (const std::string& name : split(row.names, ' '))
        EXPECT_EQ(takes.emplace(name, row.takes).first->second, row.takes) << name;
}

TEST(StartFlags, NameOnlyFlagsThatNibbleHas) {
  Settings settings;
  CLI::App serve, run, inspect;
  define_serve(serve, settings);
  define_run(run, settings);
  define_inspect(inspect, settings);
  const auto expect_known = [&](std::string_view text, std::string_view names) {
    const std::string copy(text);
    for (std::sregex_iterator it(copy.begin(), copy.end(), kFlag), end; it != end; ++it) {
      const bool is_known = serve.get_option_no_throw(it->str()) || run.get_option_no_throw(it->str()) ||
                            inspect.get_option_no_throw(it->str());
      EXPECT_TRUE(is_known) << names << " names " << it->str();
    }
  };
  for (const StartFlagGroup& group : start_flag_groups())
    for (const StartFlag& row : group.flags) {
      expect_known(row.here, row.names);
      expect_known(row.why, row.names);
      if (row.fate == Fate::kOwn && row.here.empty()) expect_known(row.names, row.names);
    }
  for (const StartVariable& variable : start_variables()) expect_known(variable.instead, variable.name);
}

TEST(StartFlags, HaveNoRowThatAnEarlierOneHides) {
  for (const StartFlagGroup& group : start_flag_groups()) {
    std::set<std::string> final;
    for (const StartFlag& row : group.flags)
      for (const std::string& name : split(row.names, ' ')) {
        // A kMapped row applies only to commands that have nibble's flag in `here`. So a name may have
        // several such rows for all values, for different commands.
        EXPECT_TRUE(!final.contains(name) || row.fate == Fate::kMapped) << name;
        if (row.values.empty()) final.insert(name);
      }
  }
}

}  // namespace
}  // namespace nibble::cli
